import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Types;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.Timer;
import java.util.TimerTask;

/** Scenario of a user of queue tables, through JDBC: {@code Scenario mssql-jdbc|jtds}. scenario.py describes the variables. */
public class Scenario {
    private static final int[] SIZES = {300, 0, 100_000};

    private static String given(String name) {
        return System.getenv("COMPAT_" + name);
    }

    public static void main(String[] arguments) throws Exception {
        boolean jtds = arguments[0].equals("jtds");
        try (Connection first = open(jtds); Connection second = open(jtds)) {
            String version = first.getMetaData().getDriverVersion();
            say("client", "\"version\": \"" + version + "\"");
            say("login", "\"connection\": \"" + value(first, given("CONNECTION")) + "\"");
            run(first, given("CREATE"));
            run(first, given("PREPARE"));
            say("create", "\"tables\": " + value(first, given("TABLES")));
            for (int number = 1; number <= SIZES.length; number++) {
                send(first, number);
            }
            say("send", "\"count\": " + value(first, given("COUNT")));
            receive(first, second);
            first.setAutoCommit(false);
            run(first, given("HOLD"));
            List<String> numbers = new ArrayList<>();
            for (String text : given("ERRORS").split("\n")) {
                numbers.add(String.valueOf(error(second, text)));
            }
            say("errors", "\"numbers\": " + numbers);
            run(second, "SET LOCK_TIMEOUT -1");
            String waiting = cancelled(second, given("WAIT"));
            String blocked = cancelled(second, given("BLOCKED"));
            say("cancel", "\"waiting\": " + waiting + ", \"blocked\": " + blocked + ", \"after\": " + value(second, "SELECT 7"));
            first.rollback();
            first.setAutoCommit(true);
            run(first, given("DROP"));
        }
    }

    private static Connection open(boolean jtds) throws SQLException {
        Properties login = new Properties();
        login.put("user", given("USER"));
        login.put("password", given("PASSWORD"));
        String server = "sqlserver://" + given("HOST") + ":" + given("PORT");
        if (jtds) {
            login.put("ssl", switch (given("MODE")) { case "plain" -> "off"; case "login" -> "request"; default -> "require"; });
            return DriverManager.getConnection("jdbc:jtds:" + server + "/" + given("DATABASE"), login);
        }
        login.put("databaseName", given("DATABASE"));
        login.put("encrypt", switch (given("MODE")) { case "login" -> "false"; case "strict" -> "strict"; default -> "true"; });
        if (given("MODE").equals("strict")) {
            login.put("serverCertificate", given("CERTIFICATE"));
        } else {
            login.put("trustServerCertificate", "true");
        }
        return DriverManager.getConnection("jdbc:" + server, login);
    }

    private static void send(Connection connection, int number) throws SQLException {
        byte[] body = new byte[SIZES[number - 1]];
        for (int index = 0; index < body.length; index++) {
            body[index] = (byte) (index * 7 + number);
        }
        List<String> names = new ArrayList<>();
        String text = java.util.regex.Pattern.compile("@(\\w+)").matcher(given("SEND")).replaceAll(found -> {
            names.add(found.group(1));
            return "?";
        });
        try (PreparedStatement statement = connection.prepareStatement(text)) {
            for (int index = 0; index < names.size(); index++) {
                switch (names.get(index)) {
                    case "Id" -> statement.setString(index + 1, String.format("00000000-0000-0000-0000-%012d", number));
                    case "Headers" -> statement.setString(
                        index + 1, "{\"Number\":\"" + number + "\",\"Greeting\":\"Gr\u00fc\u00dfe \u03a9 \ud83d\ude00\"}");
                    case "Body" -> statement.setBytes(index + 1, body);
                    default -> statement.setNull(index + 1, Types.INTEGER);
                }
            }
            if (statement.executeUpdate() != 1) {
                throw new IllegalStateException("a send changes one row");
            }
        }
    }

    private static void receive(Connection first, Connection second) throws Exception {
        first.setAutoCommit(false);
        second.setAutoCommit(false);
        String held = received(first);
        List<String> others = new ArrayList<>();
        for (int count = 0; count < 3; count++) {
            others.add(received(second));
        }
        first.rollback();
        String again = received(second);
        second.commit();
        first.setAutoCommit(true);
        second.setAutoCommit(true);
        say("receive", "\"held\": " + held + ", \"others\": " + others + ", \"again\": " + again
            + ", \"left\": " + value(first, given("COUNT")));
    }

    private static String received(Connection connection) throws Exception {
        try (Statement statement = connection.createStatement()) {
            boolean rows = statement.execute(given("RECEIVE"));
            while (!rows) {
                if (statement.getUpdateCount() == -1) {
                    throw new IllegalStateException("a receive has a result set");
                }
                rows = statement.getMoreResults();
            }
            try (ResultSet found = statement.getResultSet()) {
                if (!found.next()) {
                    return "null";
                }
                MessageDigest digest = MessageDigest.getInstance("SHA-256");
                digest.update(found.getString("Headers").getBytes(StandardCharsets.UTF_8));
                digest.update(found.getBytes("Body"));
                String hash = String.format("%064x", new BigInteger(1, digest.digest()));
                return "[\"" + found.getString("Id").toLowerCase() + "\", \"" + hash + "\"]";
            }
        }
    }

    private static int error(Connection connection, String text) {
        try {
            run(connection, text);
            return 0;
        } catch (SQLException error) {
            return error.getErrorCode();
        }
    }

    /** Seconds after which a cancelled statement ended with an error; null if it ended without one. */
    private static String cancelled(Connection connection, String text) throws SQLException {
        long start = System.nanoTime();
        Timer timer = new Timer(true);
        try (Statement statement = connection.createStatement()) {
            timer.schedule(new TimerTask() {
                @Override
                public void run() {
                    try {
                        statement.cancel();
                    } catch (SQLException error) {
                        error.printStackTrace();
                    }
                }
            }, 500);
            statement.execute(text);
            return "null";
        } catch (SQLException error) {
            return String.valueOf((System.nanoTime() - start) / 1e9);
        } finally {
            timer.cancel();
        }
    }

    private static void run(Connection connection, String text) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            boolean rows = statement.execute(text);
            while (rows || statement.getUpdateCount() != -1) {
                rows = statement.getMoreResults();
            }
        }
    }

    private static String value(Connection connection, String text) throws SQLException {
        try (Statement statement = connection.createStatement(); ResultSet found = statement.executeQuery(text)) {
            found.next();
            return found.getString(1);
        }
    }

    private static void say(String step, String facts) {
        System.out.println("{\"step\": \"" + step + "\", " + facts + "}");
    }
}
