import java.io.ByteArrayInputStream;
import java.io.FileOutputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import java.util.Map;
import org.eclipse.jetty.alpn.server.ALPNServerConnectionFactory;
import org.eclipse.jetty.http2.server.HTTP2CServerConnectionFactory;
import org.eclipse.jetty.http2.server.HTTP2ServerConnectionFactory;
import org.eclipse.jetty.io.Content;
import org.eclipse.jetty.server.ConnectionFactory;
import org.eclipse.jetty.server.Handler;
import org.eclipse.jetty.server.HttpConfiguration;
import org.eclipse.jetty.server.HttpConnectionFactory;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Response;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.server.SslConnectionFactory;
import org.eclipse.jetty.util.Callback;
import org.eclipse.jetty.util.ssl.SslContextFactory;
import org.eclipse.jetty.util.thread.QueuedThreadPool;

/**
 * Jetty with HTTP/1.1 and HTTP/2 on each port; its request log has a line for each
 * request. Arguments: directory, and the ports plain, h2c, tls13 and tls12.
 */
public class Jetty {
    public static void main(String[] args) throws Exception {
        Path dir = Path.of(args[0]);
        Map<String, byte[]> answers = Map.of("/small", Files.readAllBytes(dir.resolve("site/small")),
            "/large", Files.readAllBytes(dir.resolve("site/large")));
        Server server = new Server(new QueuedThreadPool(16));
        HttpConfiguration http = new HttpConfiguration();
        for (int i = 1; i <= 2; i++)
            listen(server, args[i], new HttpConnectionFactory(http), new HTTP2CServerConnectionFactory(http));
        KeyStore keys = keys(dir);
        for (int i = 3; i <= 4; i++) {
            SslContextFactory.Server tls = new SslContextFactory.Server();
            tls.setKeyStore(keys);
            tls.setKeyStorePassword("");
            tls.setIncludeProtocols(i == 3 ? "TLSv1.3" : "TLSv1.2");
            ALPNServerConnectionFactory alpn = new ALPNServerConnectionFactory();
            alpn.setDefaultProtocol("http/1.1");
            listen(server, args[i], new SslConnectionFactory(tls, alpn.getProtocol()), alpn,
                new HTTP2ServerConnectionFactory(http), new HttpConnectionFactory(http));
        }
        OutputStream log = new FileOutputStream(dir.resolve("log").toFile());
        server.setRequestLog((request, response) -> {
            try {
                log.write((request.getMethod() + " " + request.getHttpURI() + "\n").getBytes(StandardCharsets.US_ASCII));
            } catch (java.io.IOException e) {
                throw new java.io.UncheckedIOException(e);
            }
        });
        server.setHandler(new Handler.Abstract() {
            public boolean handle(Request request, Response response, Callback callback) throws Exception {
                Content.Source.consumeAll(request);
                byte[] body = answers.get(request.getHttpURI().getPath());
                response.setStatus(body == null ? 404 : 200);
                response.getHeaders().put("Content-Length", body == null ? 0 : body.length);
                boolean head = body == null || request.getMethod().equals("HEAD");
                response.write(true, head ? null : ByteBuffer.wrap(body), callback);
                return true;
            }
        });
        server.start();
        server.join();
    }

    static void listen(Server server, String port, ConnectionFactory... protocols) {
        ServerConnector c = new ServerConnector(server, 1, 1, protocols);
        c.setHost("127.0.0.1");
        c.setPort(Integer.parseInt(port));
        server.addConnector(c);
    }

    static KeyStore keys(Path dir) throws Exception {
        Certificate certificate = CertificateFactory.getInstance("X.509")
            .generateCertificate(new ByteArrayInputStream(Files.readAllBytes(dir.resolve("cert.pem"))));
        String text = Files.readString(dir.resolve("key.pem")).replaceAll("-----[^-]*-----", "");
        byte[] key = Base64.getMimeDecoder().decode(text);
        KeyStore keys = KeyStore.getInstance("PKCS12");
        keys.load(null, null);
        keys.setKeyEntry("key", KeyFactory.getInstance("EC").generatePrivate(new PKCS8EncodedKeySpec(key)), new char[0],
            new Certificate[] {certificate});
        return keys;
    }
}
