"""A hook of mkdocs: a link to a file outside the site becomes its path in the repository."""
import re
from os.path import exists
from posixpath import dirname, join, normpath


def on_page_markdown(markdown, page, files, **_):
    def plain(match):
        text, target = match[1], match[2].split("#")[0]
        if not target or ":" in target:
            return match[0]
        path = normpath(join(dirname(page.file.src_uri), target))
        file = files.get_file_from_path(path)
        path = normpath(join("docs", path))
        if file and file.inclusion.is_included() or not exists(path):  # the build reports a missing one
            return match[0]
        return f"`{path}`" if text.strip("`").endswith(target) else f"{text} (`{path}`)"

    return re.sub(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)", plain, markdown)
