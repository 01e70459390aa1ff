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
svg text { font: 11px system-ui, sans-serif; fill: var(--text); font-variant-numeric: tabular-nums; }
svg [fill=\"#1C2430\"] { fill: var(--text); } svg [stroke=\"#1C2430\"] { stroke: var(--text); }
svg [fill=\"#D5DAE1\"] { fill: var(--line); } svg [stroke=\"#D5DAE1\"] { stroke: var(--line); }
svg [fill=\"#9AA5B4\"] { fill: var(--s0); } svg [stroke=\"#9AA5B4\"] { stroke: var(--s0); }
svg [fill=\"#1768C4\"] { fill: var(--s1); } svg [stroke=\"#1768C4\"] { stroke: var(--s1); }
svg [fill=\"#C8742C\"] { fill: var(--s2); } svg [stroke=\"#C8742C\"] { stroke: var(--s2); }
svg [fill=\"#4C9A52\"] { fill: var(--s3); } svg [stroke=\"#4C9A52\"] { stroke: var(--s3); }
table { border-collapse: collapse; display: block; overflow-x: auto; font-variant-numeric: tabular-nums;
        margin-top: 1.5rem; }
th, td { text-align: right; padding: .2rem .6rem; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; }
.note { border-left: 4px solid var(--s2); padding: .3rem .8rem; font-weight: 600; }
";
