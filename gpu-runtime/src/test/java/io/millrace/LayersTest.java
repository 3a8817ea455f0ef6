package io.millrace;

import static com.tngtech.archunit.base.DescribedPredicate.not;
import static com.tngtech.archunit.core.domain.JavaClass.Predicates.resideInAnyPackage;
import static com.tngtech.archunit.core.domain.JavaClass.Predicates.type;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.classes;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;
import static com.tngtech.archunit.library.dependencies.SlicesRuleDefinition.slices;

import com.tngtech.archunit.core.importer.ImportOption.DoNotIncludeTests;
import com.tngtech.archunit.junit.AnalyzeClasses;
import com.tngtech.archunit.junit.ArchTest;
import com.tngtech.archunit.lang.ArchRule;
import io.millrace.engine.InvalidConfigException;

/** Who may know whom (docs/structures.md). */
@AnalyzeClasses(packages = "io.millrace", importOptions = DoNotIncludeTests.class)
class LayersTest {
    @ArchTest
    static final ArchRule kvcacheDealsInIntsAlone = classes()
            .that()
            .resideInAPackage("..kvcache..")
            .should()
            .onlyDependOnClassesThat()
            .resideInAnyPackage("io.millrace.kvcache..", "java..");

    @ArchTest
    static final ArchRule sequencesKnowTokensSamplingAndBlockTables = classes()
            .that()
            .resideInAPackage("..sequence..")
            .should()
            .onlyDependOnClassesThat()
            .resideInAnyPackage("io.millrace.sequence..", "io.millrace.kvcache..", "io.millrace.sampling..", "java..");

    @ArchTest
    static final ArchRule schedulerKnowsNoRunnerBackendOrEngine = classes()
            .that()
            .resideInAPackage("..scheduler..")
            .should()
            .onlyDependOnClassesThat()
            .resideInAnyPackage("io.millrace.scheduler..", "io.millrace.sequence..", "io.millrace.kvcache..", "java..");

    @ArchTest
    static final ArchRule runnerKnowsNoEngine = noClasses()
            .that()
            .resideInAPackage("..runner..")
            .should()
            .dependOnClassesThat()
            .resideInAnyPackage("io.millrace.engine..", "io.millrace.model..", "io.millrace.tokenizer..");

    /** A device refuses options in the engine's words. */
    @ArchTest
    static final ArchRule backendsKnowNoScheduling = noClasses()
            .that()
            .resideInAPackage("io.millrace.backend..")
            .should()
            .dependOnClassesThat(resideInAnyPackage(
                            "io.millrace.engine..",
                            "io.millrace.runner..",
                            "io.millrace.scheduler..",
                            "io.millrace.sequence..",
                            "io.millrace.kvcache..",
                            "io.millrace.prefix..",
                            "io.millrace.tokenizer..")
                    .and(not(type(InvalidConfigException.class))));

    @ArchTest
    static final ArchRule modelKnowsNoDevice = noClasses()
            .that()
            .resideInAPackage("..model..")
            .should()
            .dependOnClassesThat()
            .resideInAnyPackage(
                    "io.millrace.backend..",
                    "io.millrace.engine..",
                    "io.millrace.runner..",
                    "io.millrace.scheduler..",
                    "io.millrace.sequence..",
                    "io.millrace.kvcache..",
                    "io.millrace.tokenizer..",
                    "io.millrace.sampling..");

    @ArchTest
    static final ArchRule tokenizerKnowsNoModel = noClasses()
            .that()
            .resideInAPackage("..tokenizer..")
            .should()
            .dependOnClassesThat()
            .resideInAnyPackage(
                    "io.millrace.model..",
                    "io.millrace.backend..",
                    "io.millrace.engine..",
                    "io.millrace.runner..",
                    "io.millrace.scheduler..",
                    "io.millrace.sequence..",
                    "io.millrace.kvcache..",
                    "io.millrace.sampling..");

    @ArchTest
    static final ArchRule samplingKnowsNoBatch = noClasses()
            .that()
            .resideInAPackage("..sampling..")
            .should()
            .dependOnClassesThat()
            .resideInAnyPackage(
                    "io.millrace.model..",
                    "io.millrace.backend..",
                    "io.millrace.engine..",
                    "io.millrace.runner..",
                    "io.millrace.scheduler..",
                    "io.millrace.sequence..",
                    "io.millrace.kvcache..",
                    "io.millrace.tokenizer..");

    @ArchTest
    static final ArchRule onlyTheCpuBackendKnowsOneDnn = noClasses()
            .that()
            .resideOutsideOfPackage("io.millrace.backend.cpu..")
            .should()
            .dependOnClassesThat()
            .resideInAPackage("org.bytedeco..");

    @ArchTest
    static final ArchRule theRuntimeKnowsNoStreams = noClasses()
            .should()
            .dependOnClassesThat()
            .resideInAnyPackage("org.apache.flink..", "org.apache.kafka..", "org.apache.avro..");

    @ArchTest
    static final ArchRule packagesAreFreeOfCycles =
            slices().matching("io.millrace.(**)").should().beFreeOfCycles();
}
