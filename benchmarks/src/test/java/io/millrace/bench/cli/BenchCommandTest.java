package io.millrace.bench.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.millrace.model.ModelDirectory;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

class BenchCommandTest {
    @TempDir
    Path directory;

    private final StringWriter out = new StringWriter();

    private int run(String... arguments) {
        CommandLine commandLine = new CommandLine(new BenchCommand());
        commandLine.setOut(new PrintWriter(out));
        commandLine.setErr(new PrintWriter(out));
        return commandLine.execute(arguments);
    }

    private String config() throws IOException {
        Path file = directory.resolve("config.json");
        Files.writeString(
                file,
                "{\"model_type\": \"llama\", \"vocab_size\": 300, \"hidden_size\": 64, \"intermediate_size\": 96,"
                        + " \"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"num_key_value_heads\": 1,"
                        + " \"max_position_embeddings\": 2048, \"tie_word_embeddings\": true}");
        return file.toString();
    }

    @Test
    void exportsAModel() throws IOException {
        Path model = directory.resolve("model");
        assertEquals(0, run("export-model", "--shape", config(), "--out", model.toString()));
        assertEquals(300, ModelDirectory.open(model).spec().vocabSize());
        assertTrue(out.toString().contains("parameters of random bfloat16 weights"), out.toString());
    }

    @Test
    void measuresAndWritesBothReportsAndSaysWhetherChecksHold() throws IOException {
        Path model = directory.resolve("model");
        assertEquals(0, run("export-model", "--shape", config(), "--out", model.toString()));
        Path json = directory.resolve("report.json");
        Path html = directory.resolve("report.html");
        // Batch 2 is none that a check is about: nothing is measured, so not all checks hold.
        String[] arguments = {
            "decode",
            "--model",
            model.toString(),
            "--batch-sizes",
            "2",
            "--context",
            "48",
            "--json",
            json.toString(),
            "--html",
            html.toString(),
            "--check"
        };
        assertEquals(1, run(arguments), out.toString());
        JsonNode report = new ObjectMapper().readTree(json.toFile());
        assertEquals(2, report.get("results").get("decode").get(0).get("batch").asInt());
        assertTrue(report.get("results").get("decode").get(0).get("step_ms").asDouble() > 0);
        for (JsonNode check : report.get("checks")) {
            assertTrue(check.get("ok").isNull(), check.toString());
        }
        assertTrue(Files.readString(html).contains("uPlot"));
    }

    @Test
    void measuresExactlyTheWorkAskedFor() throws IOException {
        Path json = directory.resolve("report.json");
        String[] arguments = {
            "throughput",
            "--model",
            config(),
            "--requests",
            "2",
            "--prompt-tokens",
            "5",
            "--new-tokens",
            "3",
            "--samples",
            "2",
            "--temperature",
            "0",
            "--top-p",
            "1",
            "--rounds",
            "1",
            "--json",
            json.toString()
        };
        assertEquals(0, run(arguments), out.toString());
        JsonNode report = new ObjectMapper().readTree(json.toFile());
        assertEquals(1, report.get("config").get("rounds").asInt());
        assertEquals(0, report.get("config").get("temperature").asDouble());
        JsonNode row = report.get("results").get("throughput").get(0);
        assertEquals(2 * 2 * 3, row.get("new_tokens_per_round").asInt());
        assertTrue(row.get("decode_tokens_per_s").asDouble() > 0, report.toString());
        assertNotEquals(0, run("throughput", "--rounds", "0"));
        assertTrue(out.toString().contains("--rounds"), out.toString());
    }

    @Test
    void rolloutsComputePromptsOnceAndReadThemOnceForAllSamples() throws IOException {
        Path json = directory.resolve("report.json");
        String[] arguments = {
            "rollout",
            "--model",
            config(),
            "--prompts",
            "2",
            "--prompt-tokens",
            "256",
            "--samples",
            "3",
            "--new-tokens",
            "10",
            "--json",
            json.toString()
        };
        assertEquals(0, run(arguments), out.toString());
        JsonNode report = new ObjectMapper().readTree(json.toFile());
        JsonNode whole = report.get("results").get("rollout").get(0);
        assertEquals(2 * 256, whole.get("prefill_tokens_computed").asInt());
        assertTrue(whole.get("over_parts").asDouble() > 0, report.toString());
        JsonNode reads = report.get("results").get("shared_reads").get(0);
        // 256 tokens once instead of three times, and a block of own ones for each of the three
        double share = reads.get("share_read").asDouble();
        assertTrue(share > 1 / 3.0 && share < 0.5, report.toString());
        JsonNode products = report.get("results").get("step_products").get(0);
        assertTrue(products.get("step_over_products").asDouble() > 0, report.toString());
        JsonNode ceiling = report.get("results").get("step_ceiling").get(0);
        assertEquals(products.get("gemm_ms").asDouble(), ceiling.get("gemm_ms").asDouble());
        assertTrue(ceiling.get("own_kv_ms").asDouble() > 0, report.toString());
        assertTrue(ceiling.get("step_over_ceiling").asDouble() > 0, report.toString());
        for (JsonNode check : report.get("checks")) {
            assertTrue(check.get("ok").isNull(), check.toString());
        }
    }

    @Test
    void measuresCeilingsWithoutAnEngine() throws IOException {
        Path json = directory.resolve("report.json");
        String[] arguments = {
            "ceilings",
            "--model",
            config(),
            "--batch-sizes",
            "1",
            "--lengths",
            "7",
            "--rollout",
            "1,7,3,2",
            "--json",
            json.toString()
        };
        assertEquals(0, run(arguments), out.toString());
        JsonNode results = new ObjectMapper().readTree(json.toFile()).get("results");
        assertEquals(3, results.get("steps").size());
        assertEquals(7, results.get("steps").get(2).get("tokens").asInt());
        assertEquals(1, results.get("steps").get(2).get("logits_rows").asInt());
        assertTrue(results.get("steps").get(2).get("attention_ms").asDouble() > 0);
        assertTrue(results.get("steps").get(0).get("attention_ms").isNull());
        assertTrue(results.get("steps").get(0).get("fixed_over_fastest").asDouble() > 0);
        assertTrue(results.get("machine").get(0).get("read_gb_per_s").asDouble() > 0);
        JsonNode prompt = results.get("steps").get(2);
        double attention = Math.min(
                prompt.get("attention_by_library_ms").asDouble(),
                prompt.get("attention_at_f32_rate_ms").asDouble());
        assertEquals(attention, prompt.get("attention_ms").asDouble());
        JsonNode rollout = results.get("rollout").get(0);
        assertEquals(
                prompt.get("gemm_ms").asDouble() + attention,
                rollout.get("prompt_ms").asDouble(),
                1e-9);
        double step = rollout.get("gemm_ms").asDouble()
                + rollout.get("attention_ms").asDouble()
                + rollout.get("own_kv_ms").asDouble()
                + rollout.get("logits_ms").asDouble();
        assertEquals(step, rollout.get("step_ms").asDouble(), 1e-9);
        double millis = rollout.get("prompt_ms").asDouble() + step; // the second of 2 tokens takes a step
        assertEquals(3 * 2 / millis * 1e3, rollout.get("new_tokens_per_s").asDouble(), 1e-6);
        assertEquals(3 + 2 + 6, results.get("ways").size());
        assertNotEquals(0, run("ceilings", "--model", config(), "--rollout", "1,7,3"));
        assertTrue(out.toString().contains("--rollout"), out.toString());
    }

    @Test
    void saysWhatFewerBitsCost() throws IOException {
        Path json = directory.resolve("report.json");
        assertEquals(0, run("kv-dtypes", "--model", "../models/millrace-tiny", "--check", "--json", json.toString()));
        JsonNode report = new ObjectMapper().readTree(json.toFile());
        JsonNode rows = report.get("results").get("kv_dtypes");
        assertEquals(3, rows.size());
        // 32 dimensions a head: a float32 scale is an eighth of 8-bit numbers, a quarter of 4-bit ones.
        int bytes = report.get("config").get("dtype").asText().equals("bfloat16") ? 2 : 4;
        assertEquals(bytes / 1.125, rows.get(1).get("size_ratio").asDouble(), 1e-9);
        assertEquals(bytes / 0.625, rows.get(2).get("size_ratio").asDouble(), 1e-9);
        double eight = rows.get(1).get("logit_rms_error_over_std").asDouble();
        double four = rows.get(2).get("logit_rms_error_over_std").asDouble();
        assertTrue(0 < eight && 8 * eight < four, "errors " + eight + " and " + four + ", steps are 18 times as long");
        assertEquals(6, report.get("checks").size());
    }

    @Test
    void refusesWhatItDoesNotKnow() {
        assertEquals(2, run());
        assertTrue(out.toString().contains("a scenario is missing: decode"), out.toString());
        assertEquals(2, run("decoding"));
    }
}
