package io.millrace.operators.inference;

import io.millrace.sampling.TokenLogprobs;
import io.millrace.schemas.PositionLogprobs;
import io.millrace.schemas.TokenLogprob;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;

/**
 * Log probabilities of a run of tokens as the ledger's state keeps them: per token its id and logprob, the number of
 * alternatives, then their ids and logprobs; little endian.
 */
final class LogprobsCodec {
    private static final int HEAD_BYTES = Integer.BYTES + Float.BYTES + Integer.BYTES;
    private static final int ALTERNATIVE_BYTES = Integer.BYTES + Float.BYTES;

    private LogprobsCodec() {}

    static ByteBuffer encode(List<TokenLogprobs> tokens) {
        int numBytes = 0;
        for (TokenLogprobs token : tokens) {
            numBytes += HEAD_BYTES + ALTERNATIVE_BYTES * token.topTokenIds().length;
        }
        ByteBuffer bytes = ByteBuffer.allocate(numBytes).order(ByteOrder.LITTLE_ENDIAN);
        for (TokenLogprobs token : tokens) {
            bytes.putInt(token.tokenId()).putFloat(token.logprob()).putInt(token.topTokenIds().length);
            for (int i = 0; i < token.topTokenIds().length; i++) {
                bytes.putInt(token.topTokenIds()[i]).putFloat(token.topLogprobs()[i]);
            }
        }
        return bytes.flip();
    }

    static List<TokenLogprobs> decode(ByteBuffer encoded) {
        ByteBuffer bytes = encoded.duplicate().order(ByteOrder.LITTLE_ENDIAN);
        List<TokenLogprobs> tokens = new ArrayList<>();
        while (bytes.hasRemaining()) {
            int tokenId = bytes.getInt();
            float logprob = bytes.getFloat();
            int numAlternatives = bytes.getInt();
            int[] ids = new int[numAlternatives];
            float[] logprobs = new float[numAlternatives];
            for (int i = 0; i < numAlternatives; i++) {
                ids[i] = bytes.getInt();
                logprobs[i] = bytes.getFloat();
            }
            tokens.add(new TokenLogprobs(tokenId, logprob, ids, logprobs));
        }
        return tokens;
    }

    static PositionLogprobs toWire(TokenLogprobs token) {
        List<TokenLogprob> top = new ArrayList<>(token.topTokenIds().length);
        for (int i = 0; i < token.topTokenIds().length; i++) {
            top.add(new TokenLogprob(token.topTokenIds()[i], token.topLogprobs()[i]));
        }
        return new PositionLogprobs(token.tokenId(), token.logprob(), top);
    }

    static List<PositionLogprobs> toWire(List<TokenLogprobs> tokens) {
        List<PositionLogprobs> wire = new ArrayList<>(tokens.size());
        tokens.forEach(token -> wire.add(toWire(token)));
        return wire;
    }
}
