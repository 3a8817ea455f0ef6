package io.millrace.model;

/**
 * Reads rotary settings from rope_parameters (newer files) or from rope_scaling and rope_theta (older ones). Frequencies
 * follow transformers' default, linear (position interpolation, Chen et al.) and llama3 (Llama 3.1, by wavelength) types.
 */
final class RopeConfig {
    private RopeConfig() {}

    static RopeSpec read(JsonFile config, int headDim, double absentTheta) {
        boolean hasParameters = config.has("rope_parameters");
        boolean hasScaling = config.has("rope_scaling");
        if (hasParameters && hasScaling && !config.get("rope_parameters").equals(config.get("rope_scaling"))) {
            throw config.invalid("rope_scaling", "stands beside a different rope_parameters; keep one of them");
        }
        double theta = theta(config, absentTheta);
        if (!hasParameters && !hasScaling) {
            return new RopeSpec(headDim, defaultFrequencies(headDim, theta));
        }
        JsonFile rope = config.object(hasParameters ? "rope_parameters" : "rope_scaling");
        theta = theta(rope, theta);
        if (rope.optionalNumber("partial_rotary_factor", 1) != 1) {
            throw rope.invalid("partial_rotary_factor", "is not supported; use a checkpoint without it");
        }
        String typeKey = rope.has("rope_type") ? "rope_type" : "type";
        switch (rope.optionalText(typeKey, "default")) {
            case "default":
                return new RopeSpec(headDim, defaultFrequencies(headDim, theta));
            case "linear":
                return new RopeSpec(headDim, linearFrequencies(rope, headDim, theta));
            case "llama3":
                return new RopeSpec(headDim, llama3Frequencies(config, rope, headDim, theta));
            default:
                throw rope.invalid(typeKey, "is not supported; supported: default, linear, llama3");
        }
    }

    private static double theta(JsonFile json, double absent) {
        double theta = json.optionalNumber("rope_theta", absent);
        if (theta <= 0) {
            throw json.invalid("rope_theta", "must be above 0");
        }
        return theta;
    }

    private static double defaultFrequency(int index, int rotaryDim, double theta) {
        return 1 / StrictMath.pow(theta, 2.0 * index / rotaryDim);
    }

    private static float[] defaultFrequencies(int rotaryDim, double theta) {
        float[] frequencies = new float[rotaryDim / 2];
        for (int i = 0; i < frequencies.length; i++) {
            frequencies[i] = (float) defaultFrequency(i, rotaryDim, theta);
        }
        return frequencies;
    }

    private static float[] linearFrequencies(JsonFile rope, int rotaryDim, double theta) {
        double factor = factor(rope);
        float[] frequencies = new float[rotaryDim / 2];
        for (int i = 0; i < frequencies.length; i++) {
            frequencies[i] = (float) (defaultFrequency(i, rotaryDim, theta) / factor);
        }
        return frequencies;
    }

    /** Long wavelengths are stretched by the factor, short ones kept, those between blended. */
    private static float[] llama3Frequencies(JsonFile config, JsonFile rope, int rotaryDim, double theta) {
        double factor = factor(rope);
        double lowFrequencyFactor = rope.requireNumber("low_freq_factor");
        double highFrequencyFactor = rope.requireNumber("high_freq_factor");
        if (lowFrequencyFactor <= 0 || highFrequencyFactor <= lowFrequencyFactor) {
            throw rope.invalid(
                    "high_freq_factor", "must be above low_freq_factor = " + lowFrequencyFactor + " above 0");
        }
        String originalKey = "original_max_position_embeddings";
        int original = (rope.has(originalKey) ? rope : config).requireInt(originalKey, 1);
        float[] frequencies = new float[rotaryDim / 2];
        for (int i = 0; i < frequencies.length; i++) {
            double frequency = defaultFrequency(i, rotaryDim, theta);
            double wavelength = 2 * Math.PI / frequency;
            if (wavelength > original / lowFrequencyFactor) {
                frequency /= factor;
            } else if (wavelength >= original / highFrequencyFactor) {
                double kept = (original / wavelength - lowFrequencyFactor) / (highFrequencyFactor - lowFrequencyFactor);
                frequency = (1 - kept) * frequency / factor + kept * frequency;
            }
            frequencies[i] = (float) frequency;
        }
        return frequencies;
    }

    private static double factor(JsonFile rope) {
        double factor = rope.requireNumber("factor");
        if (factor < 1) {
            throw rope.invalid("factor", "must be at least 1");
        }
        return factor;
    }
}
