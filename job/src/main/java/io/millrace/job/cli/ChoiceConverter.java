package io.millrace.job.cli;

import io.millrace.backend.Dtype;
import io.millrace.backend.KvCacheDtype;
import io.millrace.backend.KvFormat;
import io.millrace.connect.RecordFormat;
import io.millrace.connect.kafka.KafkaPromptsOptions.StartFrom;
import io.millrace.job.stream.Delivery;
import io.millrace.job.stream.StopAt;
import io.millrace.operators.tier.TierKind;
import io.millrace.sampling.LogprobsMode;
import io.millrace.speculation.AcceptanceRule;
import io.millrace.speculation.SpeculationMethod;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.function.Function;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.TypeConversionException;

/** One of an enum's values under its option spelling; an unknown one is refused with the choices and the nearest of them. */
abstract class ChoiceConverter<E extends Enum<E>> implements ITypeConverter<E>, Iterable<String> {

    private final E[] values;
    private final Function<E, String> spelling;

    ChoiceConverter(E[] values, Function<E, String> spelling) {
        this.values = values;
        this.spelling = spelling;
    }

    @Override
    public E convert(String value) {
        for (E candidate : values) {
            if (spelling.apply(candidate).equals(value)) {
                return candidate;
            }
        }
        List<String> names = Arrays.stream(values).map(spelling).toList();
        throw new TypeConversionException("'" + value + "' is not one of " + String.join(", ", names)
                + NearestName.of(value, names)
                        .map(name -> "; did you mean " + name + "?")
                        .orElse(""));
    }

    /** The choices, for the help. */
    @Override
    public java.util.Iterator<String> iterator() {
        return Arrays.stream(values).map(spelling).iterator();
    }

    /** {@code --dtype}. */
    static final class OfDtype extends ChoiceConverter<Dtype> {
        OfDtype() {
            super(Dtype.values(), Dtype::optionName);
        }
    }

    /** {@code --kv-cache-dtype}. */
    static final class OfKvCacheDtype extends ChoiceConverter<KvCacheDtype> {
        OfKvCacheDtype() {
            super(KvCacheDtype.values(), KvCacheDtype::optionName);
        }
    }

    /** {@code --logprobs-mode}. */
    static final class OfLogprobsMode extends ChoiceConverter<LogprobsMode> {
        OfLogprobsMode() {
            super(LogprobsMode.values(), mode -> mode.name().toLowerCase(Locale.ROOT));
        }
    }

    /** {@code --speculative-method}. */
    static final class OfSpeculationMethod extends ChoiceConverter<SpeculationMethod> {
        OfSpeculationMethod() {
            super(SpeculationMethod.values(), SpeculationMethod::optionName);
        }
    }

    /** {@code --speculative-rule}. */
    static final class OfAcceptanceRule extends ChoiceConverter<AcceptanceRule> {
        OfAcceptanceRule() {
            super(AcceptanceRule.values(), AcceptanceRule::optionName);
        }
    }

    /** {@code --tier}. */
    static final class OfTierKind extends ChoiceConverter<TierKind> {
        OfTierKind() {
            super(TierKind.values(), TierKind::optionName);
        }
    }

    /** {@code --tier-kv-dtype}. */
    static final class OfKvFormat extends ChoiceConverter<KvFormat> {
        OfKvFormat() {
            super(KvFormat.values(), KvFormat::optionName);
        }
    }

    /** {@code --delivery}. */
    static final class OfDelivery extends ChoiceConverter<Delivery> {
        OfDelivery() {
            super(Delivery.values(), ChoiceConverter::hyphenated);
        }
    }

    /** {@code --format}. */
    static final class OfFormat extends ChoiceConverter<RecordFormat> {
        OfFormat() {
            super(RecordFormat.values(), ChoiceConverter::hyphenated);
        }
    }

    /** {@code --from}. */
    static final class OfStartFrom extends ChoiceConverter<StartFrom> {
        OfStartFrom() {
            super(StartFrom.values(), ChoiceConverter::hyphenated);
        }
    }

    /** {@code --until}. */
    static final class OfStopAt extends ChoiceConverter<StopAt> {
        OfStopAt() {
            super(StopAt.values(), ChoiceConverter::hyphenated);
        }
    }

    private static String hyphenated(Enum<?> value) {
        return value.name().toLowerCase(Locale.ROOT).replace('_', '-');
    }
}
