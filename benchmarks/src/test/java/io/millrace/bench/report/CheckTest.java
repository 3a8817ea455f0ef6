package io.millrace.bench.report;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.bench.report.Check.Op;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class CheckTest {
    @ParameterizedTest
    @CsvSource({
        "AT_MOST, 1.35, 1.35, true",
        "AT_MOST, 1.351, 1.35, false",
        "AT_LEAST, 0.97, 0.97, true",
        "AT_LEAST, 0.969, 0.97, false",
        "LESS, 65535, 65536, true",
        "LESS, 65536, 65536, false",
        "GREATER, 1, 0, true",
        "GREATER, 0, 0, false",
        "EQUAL, 8192, 8192, true",
        "EQUAL, 8191, 8192, false"
    })
    void comparesWithItsLimit(Op op, double value, double limit, boolean ok) {
        Check check = Check.of("figure", value, op, limit);
        assertEquals(ok, check.ok());
        assertEquals(ok, check.holds());
        assertEquals(value, check.value());
    }

    @Test
    void whatCouldNotBeMeasuredIsNeverOk() {
        for (Double value : new Double[] {null, Double.NaN, Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY}) {
            for (Op op : Op.values()) {
                Check check = Check.of("figure", value, op, 1);
                assertNull(check.ok());
                assertNull(check.value());
                assertFalse(check.holds());
            }
        }
    }

    @Test
    void cannotClaimWhatItsValueDoesNotSay() {
        assertThrows(IllegalArgumentException.class, () -> new Check("figure", 2.0, Op.AT_MOST, 1, true));
        assertThrows(IllegalArgumentException.class, () -> new Check("figure", null, Op.AT_MOST, 1, true));
        assertThrows(IllegalArgumentException.class, () -> Check.of("figure", 1.0, Op.AT_MOST, Double.NaN));
    }

    @Test
    void aReportHoldsOnlyIfEveryCheckIsMeasuredAndHolds() {
        Report report = new Report("decode");
        assertTrue(report.allChecksHold());
        report.check("first", 1.0, Op.AT_MOST, 2);
        assertTrue(report.allChecksHold());
        report.check("second", null, Op.AT_MOST, 2);
        assertFalse(report.allChecksHold());
        Report missed = new Report("decode");
        missed.check("first", 3.0, Op.AT_MOST, 2);
        assertFalse(missed.allChecksHold());
    }
}
