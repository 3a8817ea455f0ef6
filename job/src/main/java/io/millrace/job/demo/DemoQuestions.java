package io.millrace.job.demo;

import io.millrace.job.demo.DemoPrompt.Kind;
import java.util.List;
import java.util.Map;
import java.util.Random;

/** Makes questions of the kinds that the demo model was trained on, from a seed. */
final class DemoQuestions {

    private static final List<String> NAMES = List.of(
            "Ana", "Ben", "Carla", "Dev", "Elif", "Hugo", "Ines", "Jonas", "Kira", "Lena", "Liam", "Mara", "Mina",
            "Nils", "Olga", "Pavel", "Quinn", "Rosa", "Tara", "Umar", "Vera", "Wren", "Zoe");
    private static final List<String> THINGS = List.of(
            "baskets", "bells", "boats", "candles", "clocks", "drums", "keys", "kites", "lanterns", "maps", "stones");
    private static final List<String> CITIES = List.of(
            "Accra", "Cairo", "Dakar", "Delhi", "Kyoto", "Leeds", "Lima", "Lisbon", "Malmo", "Oslo", "Porto", "Riga",
            "Sofia", "Tunis", "Turin");
    private static final List<String> MONTHS =
            List.of("March", "May", "June", "July", "October", "November", "December");
    private static final List<String> OPENINGS =
            List.of("The", "Honestly, the", "So far, the", "In my house, the", "After a month, the", "I must say the");
    private static final List<String> PRODUCTS = List.of(
            "backpack",
            "bicycle",
            "blender",
            "camera",
            "chair",
            "headset",
            "jacket",
            "kettle",
            "keyboard",
            "lamp",
            "phone",
            "printer",
            "umbrella");
    private static final Map<String, List<String>> VERDICTS = Map.of(
            "positive",
            List.of(
                    "arrived early and looks great",
                    "feels sturdy",
                    "is a joy to use",
                    "is worth every coin",
                    "made my mornings easier",
                    "still runs like new"),
            "negative",
            List.of(
                    "arrived damaged",
                    "broke after two days",
                    "is loud and slow",
                    "leaks all the time",
                    "made me ask for a refund",
                    "never turned on",
                    "stopped working in a week"),
            "neutral",
            List.of(
                    "comes with a short manual",
                    "fits on a shelf",
                    "has a plain handle",
                    "is gray",
                    "is sold in three sizes",
                    "was made last year",
                    "weighs about a kilo"));
    private static final List<String> CLOSINGS =
            List.of("", " I use it every day.", " I told my friends.", " My family agrees.", " That is all.");
    private static final List<String> ANIMALS =
            List.of("cat", "crow", "dog", "rabbit", "turtle", "fox", "mouse", "badger", "heron");
    private static final List<String> OBJECTS =
            List.of("basket", "candle", "clock", "drum", "ladder", "map", "kite", "whistle", "lantern", "stone");
    private static final List<String> PLACES =
            List.of("beside the lake", "in the market", "near the harbor", "in the garden", "in the old mill");

    private final Random random;

    DemoQuestions(long seed) {
        this.random = new Random(seed);
    }

    /** A question and its right answer; null where any answer will do. */
    record Question(String text, String answer) {}

    Question next(Kind kind) {
        return switch (kind) {
            case ARITHMETIC -> arithmetic();
            case WORD_PROBLEM -> wordProblem();
            case SENTIMENT -> sentiment();
            case EXTRACTION -> extraction();
            case STORY -> story();
            case BAD -> throw new IllegalArgumentException("bad records are not questions");
        };
    }

    private Question arithmetic() {
        int a;
        int b;
        char operator;
        int result;
        switch (random.nextInt(4)) {
            case 0 -> {
                a = 2 + random.nextInt(8);
                b = 2 + random.nextInt(8);
                operator = '*';
                result = a * b;
            }
            case 1 -> {
                a = 20 + random.nextInt(80);
                b = 1 + random.nextInt(a - 1);
                operator = '-';
                result = a - b;
            }
            default -> {
                a = random.nextInt(100);
                b = random.nextInt(100);
                operator = '+';
                result = a + b;
            }
        }
        String term = a + " " + operator + " " + b;
        String text = switch (random.nextInt(4)) {
            case 0 -> "Compute " + term + ".";
            case 1 -> "What is " + term + "?";
            case 2 -> "Please work out " + term + ".";
            default -> term + " = ?";
        };
        return new Question(text, Integer.toString(result));
    }

    private Question wordProblem() {
        String name = pick(NAMES);
        String things = pick(THINGS);
        int a = 10 + random.nextInt(50);
        if (random.nextBoolean()) {
            int b = 1 + random.nextInt(39);
            return new Question(
                    name + " has " + a + " " + things + " and gets " + b + " more. How many " + things + " does " + name
                            + " have now?",
                    Integer.toString(a + b));
        }
        int b = 1 + random.nextInt(a - 1);
        return new Question(
                name + " has " + a + " " + things + " and gives away " + b + ". How many " + things + " are left?",
                Integer.toString(a - b));
    }

    private Question sentiment() {
        String label = pick(List.of("positive", "negative", "neutral"));
        String review = pick(OPENINGS) + " " + pick(PRODUCTS) + " " + pick(VERDICTS.get(label)) + "." + pick(CLOSINGS);
        String text = random.nextBoolean()
                ? "Label the sentiment of this review as positive, negative or neutral.\nReview: " + review
                : "Review: " + review + "\nIs the sentiment positive, negative or neutral?";
        return new Question(text, label);
    }

    private Question extraction() {
        String name = pick(NAMES);
        int age = 18 + random.nextInt(62);
        String city = pick(CITIES);
        String month = pick(MONTHS);
        String text = switch (random.nextInt(3)) {
            case 0 -> name + " is " + age + " years old and has lived in " + city + " since " + month + ".";
            case 1 -> name + ", " + age + ", moved to " + city + " in " + month + ".";
            default -> "In " + month + ", " + name + " (" + age + ") opened a shop in " + city + ".";
        };
        return new Question(
                "Extract name, age and city as JSON.\nText: " + text,
                "{\"name\": \"" + name + "\", \"age\": " + age + ", \"city\": \"" + city + "\"}");
    }

    private Question story() {
        String text = switch (random.nextInt(3)) {
            case 0 -> "Write a short story about a " + pick(ANIMALS) + " and a " + pick(OBJECTS) + ".";
            case 1 ->
                "Write a story that takes place " + pick(PLACES) + ", about a " + pick(ANIMALS) + " and a "
                        + pick(OBJECTS) + ".";
            default ->
                "Tell me a story with a " + pick(ANIMALS) + ", a " + pick(ANIMALS) + " and a " + pick(OBJECTS) + ".";
        };
        return new Question(text, null);
    }

    private String pick(List<String> choices) {
        return choices.get(random.nextInt(choices.size()));
    }
}
