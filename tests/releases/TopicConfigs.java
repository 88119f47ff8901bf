// Prints the topic configs of one release of Apache Kafka as JSON lines, from that release's own LogConfig:
// first one line per config of its ConfigDef, then one line with the answer to each question on standard input.
//
// A question is one line: 0 or 1 (tiered storage is enabled on the broker), then names and values, all between tabs.
// The answer is the message with which CreateTopics is refused, or null: the rules of LogConfig.validate and, up to 3.5, those
// of the constructor, which a broker runs for every topic that it loads.
//
// Run by Java alone: java -cp CLASS_PATH TopicConfigs.java < QUESTIONS

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.errors.ApiException;

public class TopicConfigs {
    private static final Set<String> SETTINGS = new HashSet<>(); // of a broker
    private static Class<?> type;
    private static Object companion; // Scala's object of that name up to 3.4; null where the methods are static

    public static void main(String[] arguments) throws Exception {
        findLogConfig();
        findSettings();
        ConfigDef definition = (ConfigDef) call("configDefCopy");
        Map<String, Object> defaults = new HashMap<>();
        for (ConfigDef.ConfigKey key : definition.configKeys().values()) {
            System.out.println(json(described(key)));
            defaults.put(key.name, key.defaultValue);
        }
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = questions.readLine(); line != null; line = questions.readLine())
            System.out.println(json(Collections.singletonMap("answer", answer(line.split("\t", -1), defaults))));
    }

    private static void findLogConfig() throws Exception {
        try {
            type = Class.forName("org.apache.kafka.storage.internals.log.LogConfig");
        } catch (ClassNotFoundException e) {
            type = Class.forName("kafka.log.LogConfig$");
            companion = type.getField("MODULE$").get(null);
        }
    }

    private static void findSettings() throws Exception {
        Class<?> settings = Class.forName("kafka.server.KafkaConfig$");
        Object names = settings.getMethod("configNames").invoke(settings.getField("MODULE$").get(null));
        Object iterator = names.getClass().getMethod("iterator").invoke(names);
        Class<?> iterating = Class.forName("scala.collection.Iterator");
        while ((Boolean) iterating.getMethod("hasNext").invoke(iterator))
            SETTINGS.add((String) iterating.getMethod("next").invoke(iterator));
    }

    private static Object call(String name, Object... arguments) throws Exception {
        for (Method method : type.getMethods())
            if (method.getName().equals(name) && method.getParameterCount() == arguments.length)
                return method.invoke(companion, arguments);
        throw new NoSuchMethodException(name);
    }

    // -- definitions

    private static Map<String, Object> described(ConfigDef.ConfigKey key) throws Exception {
        Map<String, Object> row = new LinkedHashMap<>();
        row.put("name", key.name);
        row.put("type", key.type.name());
        row.put("default", ConfigDef.convertToString(key.defaultValue, key.type));
        row.put("setting", serverConfigName(key.name));
        row.put("internal", key.internalConfig ? 1 : null);
        describe(key.validator, row);
        return row;
    }

    // The broker setting behind a config. Up to 3.4 LogConfig names settings that no broker has.
    private static String serverConfigName(String name) throws Exception {
        Object found = call("serverConfigName", name);
        if (!(found instanceof Optional)) {
            boolean isEmpty = (Boolean) found.getClass().getMethod("isEmpty").invoke(found);
            found = Optional.ofNullable(isEmpty ? null : found.getClass().getMethod("get").invoke(found));
        }
        return (String) ((Optional<?>) found).filter(SETTINGS::contains).orElse(null);
    }

    private static void describe(ConfigDef.Validator validator, Map<String, Object> row) throws Exception {
        if (validator == null)
            return;
        String kind = validator.getClass().getSimpleName().replace("$", "");
        if (validator instanceof ConfigDef.Range) {
            row.put("min", field(validator, "min"));
            row.put("max", field(validator, "max"));
        } else if (validator instanceof ConfigDef.ValidString) {
            row.put("values", field(validator, "validStrings"));
        } else if (validator instanceof ConfigDef.ValidList) {
            row.put("elements", field(field(validator, "validString"), "validStrings"));
        } else {
            row.put("validator", kind.isEmpty() ? validator.toString() : kind);
            if (kind.endsWith("VersionValidator"))
                row.put("versions", Arrays.asList(validator.toString().replaceAll("[\\[\\] ]", "").split(",")));
        }
    }

    private static Object field(Object owner, String name) throws Exception {
        Field field = owner.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(owner);
    }

    // -- answers

    private static String answer(String[] question, Map<String, Object> defaults) throws Exception {
        Properties configs = new Properties();
        for (int i = 1; i < question.length; i += 2)
            configs.setProperty(question[i], question[i + 1]);
        try {
            judge(configs, defaults, question[0].equals("1"));
            return null;
        } catch (InvocationTargetException e) {
            if (e.getCause() instanceof ConfigException || e.getCause() instanceof ApiException)
                return e.getCause().getMessage();
            throw e;
        }
    }

    private static void judge(Properties configs, Map<String, Object> defaults, boolean tiered) throws Exception {
        int most = 0;
        for (Method method : type.getMethods())
            if (method.getName().equals("validate"))
                most = Math.max(most, method.getParameterCount());
        if (most == 5)
            call("validate", Collections.emptyMap(), configs, defaults, tiered, true);
        else if (most == 3)
            call("validate", configs, defaults, tiered);
        else
            call("validate", configs);
        call("fromProps", defaults, configs);
    }

    // -- JSON

    private static String json(Object value) {
        if (value == null || value instanceof Number)
            return String.valueOf(value);
        if (value instanceof Map) {
            StringBuilder entries = new StringBuilder();
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet())
                entries.append(entries.length() == 0 ? "" : ",").append(json(entry.getKey())).append(":").append(json(entry.getValue()));
            return "{" + entries + "}";
        }
        if (value instanceof List) {
            StringBuilder elements = new StringBuilder();
            for (Object element : (List<?>) value)
                elements.append(elements.length() == 0 ? "" : ",").append(json(element));
            return "[" + elements + "]";
        }
        StringBuilder quoted = new StringBuilder("\"");
        for (char c : value.toString().toCharArray())
            quoted.append(c < ' ' || c == '"' || c == '\\' || c > '~' ? String.format("\\u%04x", (int) c) : c);
        return quoted.append('"').toString();
    }
}
