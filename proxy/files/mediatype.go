package files

import (
	"path"
	"strings"
)

// mediaTypes are the types of files by extension, in lower case, from the registrations of IANA and,
// for what is not registered, from what browsers expect. The machine's table is not read: it differs
// from one image to the next, and a bare container has none.
var mediaTypes = typesOf(
	"text/html", "html htm shtml",
	"text/css", "css",
	"text/javascript", "js mjs cjs",
	"text/plain", "txt text log conf ini",
	"text/markdown", "md markdown",
	"text/csv", "csv",
	"text/tab-separated-values", "tsv",
	"text/calendar", "ics ifb",
	"text/vcard", "vcf vcard",
	"text/vtt", "vtt",
	"text/x-component", "htc",
	"application/json", "json map",
	"application/json5", "json5",
	"application/geo+json", "geojson",
	"application/ld+json", "jsonld",
	"application/manifest+json", "webmanifest",
	"application/x-ndjson", "ndjson jsonl",
	"application/xml", "xml xsd dtd",
	"application/xslt+xml", "xslt xsl",
	"application/xhtml+xml", "xhtml xht",
	"application/atom+xml", "atom",
	"application/rss+xml", "rss",
	"application/vnd.google-earth.kml+xml", "kml",
	"application/gpx+xml", "gpx",
	"application/wasm", "wasm",
	"application/yaml", "yaml yml",
	"application/toml", "toml",
	"application/sql", "sql",
	"application/graphql", "graphql",
	"application/x-sh", "sh",
	"application/rtf", "rtf",
	"application/pdf", "pdf",
	"application/postscript", "ps eps",
	"application/epub+zip", "epub",
	"application/msword", "doc",
	"application/vnd.ms-excel", "xls",
	"application/vnd.ms-powerpoint", "ppt",
	"application/vnd.openxmlformats-officedocument.wordprocessingml.document", "docx",
	"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx",
	"application/vnd.openxmlformats-officedocument.presentationml.presentation", "pptx",
	"application/vnd.oasis.opendocument.text", "odt",
	"application/vnd.oasis.opendocument.spreadsheet", "ods",
	"application/vnd.oasis.opendocument.presentation", "odp",
	"application/zip", "zip",
	"application/gzip", "gz tgz",
	"application/x-brotli", "br",
	"application/zstd", "zst",
	"application/x-bzip2", "bz2",
	"application/x-xz", "xz",
	"application/x-tar", "tar",
	"application/x-7z-compressed", "7z",
	"application/vnd.rar", "rar",
	"application/java-archive", "jar war ear",
	"application/vnd.android.package-archive", "apk",
	"application/vnd.debian.binary-package", "deb",
	"application/x-rpm", "rpm",
	"application/x-apple-diskimage", "dmg",
	"application/x-iso9660-image", "iso",
	"application/x-x509-ca-cert", "crt cer der",
	"application/x-pem-file", "pem",
	"application/pgp-signature", "asc sig",
	"application/vnd.apple.mpegurl", "m3u8",
	"application/dash+xml", "mpd",
	"application/vnd.ms-fontobject", "eot",
	"application/octet-stream", "bin exe dll so msi img data dat",
	"font/woff", "woff",
	"font/woff2", "woff2",
	"font/ttf", "ttf",
	"font/otf", "otf",
	"font/collection", "ttc",
	"image/svg+xml", "svg",
	"image/png", "png",
	"image/apng", "apng",
	"image/jpeg", "jpg jpeg jpe jfif",
	"image/gif", "gif",
	"image/webp", "webp",
	"image/avif", "avif",
	"image/heic", "heic",
	"image/heif", "heif",
	"image/jxl", "jxl",
	"image/bmp", "bmp",
	"image/tiff", "tif tiff",
	"image/vnd.microsoft.icon", "ico cur",
	"video/mp4", "mp4 m4v",
	"video/webm", "webm",
	"video/ogg", "ogv",
	"video/quicktime", "mov",
	"video/mpeg", "mpeg mpg",
	"video/mp2t", "ts m2ts",
	"video/matroska", "mkv",
	"video/x-msvideo", "avi",
	"video/3gpp", "3gp",
	"audio/mpeg", "mp3",
	"audio/ogg", "ogg oga opus",
	"audio/mp4", "m4a",
	"audio/aac", "aac",
	"audio/wav", "wav",
	"audio/flac", "flac",
	"audio/webm", "weba",
	"audio/midi", "mid midi",
	"audio/matroska", "mka",
	"model/gltf-binary", "glb",
	"model/gltf+json", "gltf",
	"model/stl", "stl",
) // read-only

// typesOf maps extensions to types; pairs alternates types and their extensions.
func typesOf(pairs ...string) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		for ext := range strings.FieldsSeq(pairs[i+1]) {
			m["."+ext] = pairs[i]
		}
	}
	return m
}

// TypeOf returns the Content-Type of a file by its name.
func TypeOf(name string) string { return (&Site{charset: "utf-8"}).kind(name) }

// mediaType returns the type of a file by its name, "" if it is not known.
func mediaType(name string) string { return mediaTypes[strings.ToLower(path.Ext(name))] }
