package io.millrace.operators.prepare;

import io.millrace.model.ModelDirectory;
import io.millrace.operators.PipelineOptions;
import io.millrace.operators.routing.PrefixRouter;
import io.millrace.sampling.InvalidSamplingException;
import io.millrace.schemas.ErrorInfo;
import io.millrace.schemas.PreparedRequest;
import io.millrace.schemas.Prompt;
import io.millrace.schemas.PromptEnvelope;
import io.millrace.schemas.Source;
import io.millrace.tokenizer.ChatMessage;
import io.millrace.tokenizer.ChatTemplateException;
import io.millrace.tokenizer.Tokenizer;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Tokenises and validates prompts, one record out for each record in: a bad one comes out as its error, so that the
 * inference operator, where everything is counted, sees it too.
 */
public final class PreparePrompts extends RichMapFunction<PromptEnvelope, PreparedRequest> {
    private static final long serialVersionUID = 1L;
    private static final Logger LOG = LoggerFactory.getLogger(PreparePrompts.class);

    private final PipelineOptions options;
    private final int maxParallelism;

    private transient int vocabSize;
    private transient int maxModelLen;
    private transient Optional<Tokenizer> tokenizer;
    private transient SamplingResolver sampling;
    private transient PrefixRouter router;
    private transient boolean saidThatMarkersOccurred;

    /** @param maxParallelism key groups of the inference operator */
    public PreparePrompts(PipelineOptions options, int maxParallelism) {
        this.options = options;
        this.maxParallelism = maxParallelism;
    }

    @Override
    public void open(OpenContext context) {
        Path path = Path.of(options.engine().model());
        ModelDirectory model = ModelDirectory.open(path);
        vocabSize = model.spec().vocabSize();
        int modelLimit = model.spec().maxPositionEmbeddings();
        maxModelLen = options.engine().maxModelLen() == 0
                ? modelLimit
                : options.engine().maxModelLen();
        tokenizer = Tokenizer.open(path);
        sampling = new SamplingResolver(options.samplingDefaults(), model.generationDefaults(), maxModelLen);
        router = new PrefixRouter(options.inferenceParallelism(), maxParallelism);
    }

    @Override
    public void close() {
        if (tokenizer != null) {
            tokenizer.ifPresent(Tokenizer::close);
        }
    }

    @Override
    public PreparedRequest map(PromptEnvelope envelope) {
        PreparedRequest request = new PreparedRequest();
        request.setUid(uid(envelope.getSource()));
        request.setRequestId(envelope.getRequestId() == null ? request.getUid() : envelope.getRequestId());
        request.setSource(envelope.getSource());
        request.setOriginal(envelope.getOriginal());
        request.setHeaders(envelope.getHeaders());
        request.setPromptTokenIds(ByteBuffer.allocate(0));
        request.setRoutingKey(request.getUid().hashCode());
        if (envelope.getError() != null) {
            request.setError(envelope.getError());
            return request;
        }
        try {
            prepare(envelope.getPrompt(), request);
        } catch (InvalidPromptException e) {
            request.setError(e.error());
        } catch (InvalidSamplingException e) {
            request.setError(new ErrorInfo("invalid_sampling", e.getMessage(), e.remedy()));
        } catch (ChatTemplateException e) {
            request.setError(new ErrorInfo(
                    "chat_template_error", e.getMessage(), "send messages that the model's chat template takes"));
        }
        return request;
    }

    private void prepare(Prompt prompt, PreparedRequest request) throws InvalidPromptException {
        int[] tokenIds = tokenIds(prompt);
        checkTokenIds(tokenIds, prompt.getPromptTokenIds() != null);
        request.setPromptTokenIds(TokenBytes.encode(tokenIds));
        request.setSampling(sampling.resolve(prompt.getSampling(), tokenIds.length));
        checkStops(request);
        request.setGroupId(prompt.getGroupId());
        request.setEpoch(prompt.getEpoch());
        request.setPriority(prompt.getPriority() == null ? 0 : prompt.getPriority());
        request.setCacheSalt(prompt.getCacheSalt());
        request.setMetadata(prompt.getMetadata());
        request.setGroundTruth(prompt.getGroundTruth());
        request.setReturnPromptTokenIds(Boolean.TRUE.equals(prompt.getReturnPromptTokenIds()));
        request.setRoutingKey(router.route(tokenIds, request.getSampling().getN(), prompt.getCacheSalt()));
    }

    private int[] tokenIds(Prompt prompt) throws InvalidPromptException {
        if (prompt.getPromptTokenIds() != null) {
            return prompt.getPromptTokenIds().stream()
                    .mapToInt(Integer::intValue)
                    .toArray();
        }
        if (tokenizer.isEmpty()) {
            throw new InvalidPromptException(
                    "no_tokenizer",
                    "the model directory " + options.engine().model() + " has no tokenizer.json",
                    "send prompt_token_ids instead of text, or add the tokenizer to the model directory");
        }
        Tokenizer encoder = tokenizer.get();
        if (prompt.getMessages() != null) {
            if (!encoder.hasChatTemplate()) {
                throw new InvalidPromptException(
                        "no_chat_template",
                        "the model directory " + options.engine().model() + " has no chat template",
                        "send prompt (text) instead of messages, or use an instruction-tuned model");
            }
            List<ChatMessage> messages = new ArrayList<>();
            prompt.getMessages().forEach(m -> messages.add(new ChatMessage(m.getRole(), m.getContent())));
            return encoder.encodeChat(messages);
        }
        boolean addSpecialTokens = !Boolean.FALSE.equals(prompt.getAddSpecialTokens());
        boolean parseSpecialTokens = Boolean.TRUE.equals(prompt.getParseSpecialTokens());
        if (!parseSpecialTokens && !saidThatMarkersOccurred && encoder.containsSpecialTokenText(prompt.getPrompt())) {
            saidThatMarkersOccurred = true;
            LOG.warn("a text prompt holds the text of a special token, taken as plain text here and from now on; "
                    + "prompts rendered with a chat template beforehand need \"parse_special_tokens\": true");
        }
        return encoder.encode(prompt.getPrompt(), addSpecialTokens, parseSpecialTokens);
    }

    private void checkTokenIds(int[] tokenIds, boolean fromUser) throws InvalidPromptException {
        if (tokenIds.length == 0) {
            throw new InvalidPromptException(
                    "empty_prompt", "the prompt has no tokens", "send at least one token of prompt");
        }
        if (tokenIds.length >= maxModelLen) {
            throw new InvalidPromptException(
                    "prompt_too_long",
                    "the prompt has " + tokenIds.length + " tokens and leaves no room in a context of " + maxModelLen,
                    "shorten it to at most " + (maxModelLen - 1)
                            + " tokens, or raise --max-model-len if the model can");
        }
        for (int i = 0; i < tokenIds.length; i++) {
            if (tokenIds[i] < 0 || tokenIds[i] >= vocabSize) {
                throw new InvalidPromptException(
                        "token_id_out_of_vocabulary",
                        (fromUser ? "prompt_token_ids[" : "the tokenizer's token [") + i + "] = " + tokenIds[i]
                                + " lies outside the vocabulary of " + vocabSize,
                        "use ids from 0 to " + (vocabSize - 1));
            }
        }
    }

    private void checkStops(PreparedRequest request) throws InvalidPromptException {
        if (tokenizer.isEmpty() && !request.getSampling().getStop().isEmpty()) {
            throw new InvalidPromptException(
                    "no_tokenizer",
                    "stop texts need a tokenizer, and the model directory has no tokenizer.json",
                    "use stop_token_ids");
        }
        for (int id : request.getSampling().getStopTokenIds()) {
            checkSettingId("stop_token_ids", id);
        }
        for (String id : request.getSampling().getLogitBias().keySet()) {
            checkSettingId("logit_bias", Integer.parseInt(id));
        }
    }

    private void checkSettingId(String setting, int id) {
        if (id < 0 || id >= vocabSize) {
            throw new InvalidSamplingException(
                    setting, id, "lies outside the vocabulary of " + vocabSize, "use ids from 0 to " + (vocabSize - 1));
        }
    }

    /** The source coordinates as text: unique in the job, and the same again when a record is replayed. */
    static String uid(Source source) {
        return source.getTopic() == null
                ? source.getFile() + ":" + source.getLine()
                : source.getTopic() + "-" + source.getPartition() + "-" + source.getOffset();
    }
}
