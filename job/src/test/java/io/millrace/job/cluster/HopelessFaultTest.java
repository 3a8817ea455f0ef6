package io.millrace.job.cluster;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;

import io.millrace.model.InvalidModelException;
import io.millrace.tokenizer.ChatTemplateException;
import io.millrace.tokenizer.InvalidTokenizerException;
import java.io.IOException;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;

class HopelessFaultTest {

    @Test
    void whatNoRestartMendsIsFoundWhereverItStands() {
        for (RuntimeException cause : List.of(
                new InvalidModelException("config.json is no valid JSON"),
                new InvalidTokenizerException("tokenizer.json cannot be read", new IOException("cut")),
                new ChatTemplateException("chat template in tokenizer_config.json", new RuntimeException("line 1")))) {
            Exception wrapped = new Exception("task failed", new RuntimeException("open failed", cause));
            assertSame(cause, EmbeddedCluster.hopeless(wrapped).orElseThrow());
        }
    }

    @Test
    void otherFaultsAreWorthARestart() {
        RuntimeException circle = new RuntimeException("one");
        circle.initCause(new RuntimeException("other", circle));
        assertEquals(Optional.empty(), EmbeddedCluster.hopeless(circle));
        assertEquals(Optional.empty(), EmbeddedCluster.hopeless(new IOException("disk full")));
    }
}
