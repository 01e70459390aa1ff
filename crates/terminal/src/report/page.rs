//! A self-contained HTML page.

/// Returns a page with a title, a paragraph of text below it, and sections of HTML.
pub fn page(title: &str, lead: &str, sections: &[String]) -> String {
    let (title, lead, body) = (escape(title), escape(lead), sections.join("\n"));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n\
         <body>\n<h1>{title}</h1>\n<p>{lead}</p>\n{body}\n</body>\n</html>\n"
    )
}

/// Returns a paragraph of text that stands out.
pub fn note(text: &str) -> String {
    format!("<p class=\"note\">{}</p>", escape(text))
}

/// Returns an HTML table. All columns but the first are numbers.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let row = |cells: &[String], tag: &str| -> String {
        let cells: String = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell))).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let header: Vec<_> = header.iter().map(|name| (*name).to_owned()).collect();
    let body: String = rows.iter().map(|cells| row(cells, "td")).collect();
    format!("<table>\n<thead>{}</thead>\n<tbody>{body}</tbody>\n</table>", row(&header, "th"))
}

/// Makes `text` safe as content and as an attribute.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

const STYLE: &str = "
:root { color-scheme: light dark; --text: #1c2430; --page: #ffffff; --line: #d5dae1; --s0: #9aa5b4; --s1: #1768c4;
        --s2: #c8742c; --s3: #4c9a52; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e3e7ed; --page: #14181e; --line: #39424e; --s0: #6d7887; --s1: #5ba3f5;
          --s2: #e0924c; --s3: #6fc07a; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--page); max-width: 960px;
       margin: 2rem auto; padding: 0 1rem; }
svg { width: 100%; height: auto; }
svg text { font-size: 11px; fill: var(--text); font-variant-numeric: tabular-nums; }
svg line { stroke: var(--text); stroke-dasharray: 4 3; }
.s0 { fill: var(--s0); } .s1 { fill: var(--s1); } .s2 { fill: var(--s2); } .s3 { fill: var(--s3); }
.s4 { fill: #7a6ff0; } .s5 { fill: #d1495b; } .s6 { fill: #2a9d8f; } .s7 { fill: #8c6d46; } .s8 { fill: #e377a2; }
.s9 { fill: #7f8c99; }
polyline { fill: none; stroke-width: 1.5; } circle { stroke: none; } .grid { stroke: var(--line); }
polyline.main { stroke: var(--s1); stroke-width: 4; } circle.main { fill: var(--s1); }
polyline.dashed { stroke: var(--text); stroke-dasharray: 5 4; } circle.dashed { fill: var(--text); }
.c0 { --c: #d1495b; } .c1 { --c: #e08e45; } .c2 { --c: #b5a21c; } .c3 { --c: #5f9e3e; } .c4 { --c: #2a9d8f; }
.c5 { --c: #7a6ff0; } .c6 { --c: #b455b6; } .c7 { --c: #8c6d46; } .c8 { --c: #e377a2; } .c9 { --c: #7f8c99; }
.c10 { --c: #a11d4f; } .c11 { --c: #1f5f5b; }
polyline[class^=c] { stroke: var(--c); } circle[class^=c] { fill: var(--c); }
table { border-collapse: collapse; display: block; overflow-x: auto; font-variant-numeric: tabular-nums;
        margin-top: 1.5rem; }
th, td { text-align: right; padding: .2rem .6rem; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; }
.note { border-left: 4px solid var(--s2); padding: .3rem .8rem; font-weight: 600; }
";
