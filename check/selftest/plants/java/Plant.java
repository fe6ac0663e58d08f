import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.security.MessageDigest;
import java.util.ArrayDeque;
import java.util.concurrent.Executors;

/**
 * The JDK's own HTTP server on a fixed pool of threads, with a planted bottleneck.
 *
 * Plant ADDR PLANT THREADS N
 *   sleep  every request keeps its thread for N ms
 *   lock   N synchronized blocks, one of which a request keeps for 3 ms
 *   cpu    N rounds of SHA-256 for each request
 *   gc     2 MB of short-lived objects for each request, beside N MB that stay
 *   split  the answer's head and body are two small writes, after N ms
 */
class Plant {
    static final byte[] ANSWER = "done\n".getBytes();

    interface Work {
        void run() throws Exception;
    }

    public static void main(String[] args) throws Exception {
        int colon = args[0].lastIndexOf(':');
        var address = new InetSocketAddress(args[0].substring(0, colon), Integer.parseInt(args[0].substring(colon + 1)));
        Work work = plant(args[1], Integer.parseInt(args[3]));
        HttpServer server = HttpServer.create(address, 512);
        server.setExecutor(Executors.newFixedThreadPool(Integer.parseInt(args[2])));
        server.createContext("/", exchange -> {
            try {
                work.run();
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
            exchange.sendResponseHeaders(200, ANSWER.length);
            try (var body = exchange.getResponseBody()) {
                body.write(ANSWER);
            }
        });
        server.start();
    }

    static Work plant(String name, int n) {
        switch (name) {
            case "sleep":
            case "split":
                return () -> Thread.sleep(n);
            case "lock":
                return locks(n);
            case "cpu":
                return () -> digest(n);
            case "gc":
                return garbage(n);
            default:
                throw new IllegalArgumentException(name);
        }
    }

    static Work locks(int n) {
        Object[] locks = new Object[n];
        for (int i = 0; i < n; i++) {
            locks[i] = new Object();
        }
        return () -> {
            Object own = locks[(int) (Thread.currentThread().getId() % n)];
            synchronized (own) {
                Thread.sleep(3);
            }
        };
    }

    static void digest(int rounds) throws Exception {
        MessageDigest sha = MessageDigest.getInstance("SHA-256");
        byte[] sum = ANSWER;
        for (int i = 0; i < rounds; i++) {
            sum = sha.digest(sum);
        }
    }

    /** Small objects: what stays has to be marked again at every full collection. */
    static Work garbage(int megabytes) {
        var stays = new ArrayDeque<Object[]>();
        for (int i = 0; i < megabytes * 16384; i++) {
            stays.add(new Object[10]); // 56 bytes, and 8 in the deque
        }
        return () -> {
            synchronized (stays) {
                for (int i = 0; i < 32768; i++) {
                    stays.poll();
                    stays.add(new Object[10]);
                }
            }
        };
    }
}
