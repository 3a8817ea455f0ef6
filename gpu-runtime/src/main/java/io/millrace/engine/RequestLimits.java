package io.millrace.engine;

import io.millrace.engine.Request.ResumedSample;
import io.millrace.engine.StepReport.RequestFailure;
import java.util.HashSet;
import java.util.Set;

/**
 * What a request must keep to so that the engine can serve it.
 *
 * @param vocabSize ids are 0 … vocabSize-1
 * @param maxModelLen most tokens of a sequence
 * @param kvCacheTokens tokens the whole KV cache holds
 * @param hasTokenizer whether output has a text
 */
record RequestLimits(int vocabSize, int maxModelLen, int kvCacheTokens, boolean hasTokenizer) {

    /** Output tokens a sample may have: max_tokens, or what the context length leaves. */
    int maxOutputTokens(Request request) {
        return Math.min(request.sampling().maxTokens(), maxModelLen - request.promptTokenIds().length);
    }

    /** Why the request cannot be served, or null. */
    RequestFailure check(Request request) {
        int numPromptTokens = request.promptTokenIds().length;
        if (numPromptTokens >= maxModelLen) {
            return failure(
                    request,
                    "prompt_too_long",
                    "the prompt has " + numPromptTokens + " tokens, which leaves no room for output in the context of "
                            + maxModelLen,
                    "shorten the prompt or raise --max-model-len");
        }
        int numTokens = numPromptTokens + maxOutputTokens(request);
        if (numTokens > kvCacheTokens) {
            return failure(
                    request,
                    "kv_cache_too_small",
                    "a sample may reach " + numTokens + " tokens (prompt " + numPromptTokens
                            + ") but the whole KV cache holds " + kvCacheTokens,
                    "raise --kv-cache-memory-bytes, or lower max_tokens or --max-model-len");
        }
        if (!request.sampling().stop().isEmpty() && !hasTokenizer) {
            return failure(
                    request,
                    "stop_without_tokenizer",
                    "stop texts were given but the model has no tokenizer, so its output has no text",
                    "use stop_token_ids, or add tokenizer.json to the model directory");
        }
        RequestFailure badId = checkIds(request);
        return badId != null ? badId : checkResumed(request);
    }

    private RequestFailure checkIds(Request request) {
        int[] prompt = request.promptTokenIds();
        for (int i = 0; i < prompt.length; i++) {
            if (isUnknown(prompt[i])) {
                return unknownId(request, "prompt_token_ids[" + i + "]", prompt[i]);
            }
        }
        for (int id : request.sampling().stopTokenIds()) {
            if (isUnknown(id)) {
                return unknownId(request, "stop_token_ids", id);
            }
        }
        for (int id : request.sampling().logitBias().keySet()) {
            if (isUnknown(id)) {
                return unknownId(request, "logit_bias", id);
            }
        }
        return null;
    }

    private RequestFailure checkResumed(Request request) {
        Set<Integer> samples = new HashSet<>();
        for (ResumedSample resumed : request.resumed()) {
            if (resumed.sample() < 0
                    || resumed.sample() >= request.sampling().n()
                    || !samples.add(resumed.sample())
                    || resumed.tokenIds().length > maxOutputTokens(request)) {
                return failure(
                        request,
                        "invalid_resume",
                        "the progress brought along for sample " + resumed.sample() + " ("
                                + resumed.tokenIds().length + " tokens) does not fit a request of n = "
                                + request.sampling().n() + " and at most " + maxOutputTokens(request)
                                + " output tokens, each sample once",
                        "resume with the options that the progress was made with");
            }
            for (int id : resumed.tokenIds()) {
                if (isUnknown(id)) {
                    return unknownId(request, "progress of sample " + resumed.sample(), id);
                }
            }
        }
        return null;
    }

    private boolean isUnknown(int id) {
        return id < 0 || id >= vocabSize;
    }

    private RequestFailure unknownId(Request request, String where, int id) {
        return failure(
                request,
                "token_id_out_of_vocabulary",
                where + " = " + id + " is outside of the vocabulary 0 … " + (vocabSize - 1),
                "use the ids of this model's own tokenizer");
    }

    private static RequestFailure failure(Request request, String code, String message, String remedy) {
        return new RequestFailure(request.id(), code, message, remedy);
    }
}
