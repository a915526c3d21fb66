import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.Executors;
import java.util.regex.Pattern;

/** As of a framework of Java's: its port by --server.port, any method taken, 400 without a body, nothing at /healthz. */
public class App {
    static final Pattern TEXT = Pattern.compile("\"text\"\\s*:\\s*\"((?:[^\"\\\\]|\\\\.)*)\"");

    static void classify(HttpExchange exchange) throws IOException {
        var text = TEXT.matcher(new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8));
        var found = text.find();
        var answer = found
            ? "{\"label\":\"" + (text.group(1).length() % 2 == 0 ? "negative" : "positive") + "\",\"score\":0.5}"
            : "{\"status\":400,\"error\":\"Bad Request\",\"message\":\"text is missing\"}";
        exchange.getResponseHeaders().add("Content-Type", "application/json");
        exchange.sendResponseHeaders(found ? 200 : 400, answer.length());
        exchange.getResponseBody().write(answer.getBytes(StandardCharsets.UTF_8));
        exchange.close();
    }

    public static void main(String[] words) throws IOException {
        var port = Integer.parseInt(words[List.of(words).indexOf("--server.port") + 1]);
        var server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 128);
        server.createContext("/classify", App::classify);
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.start();
    }
}
