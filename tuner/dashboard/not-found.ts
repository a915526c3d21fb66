/** The page for an address that leads nowhere: what is missing, and what there is. */
import type { ExperimentEntry } from '../../reports/dashboard/data.ts'
import { escapeHtml } from '../../reports/report/document/html.ts'

/** HTML that says what is not here and links to the experiments that are, newest first. */
export function notFoundPage(what: string, experiments: readonly ExperimentEntry[]): string {
  const links = [...experiments]
    .sort((a, b) => b.createdAt.localeCompare(a.createdAt))
    .map(({ id, name, state, trials, createdAt }) => {
      const about = `${name}, ${state}, ${trials} trial${trials === 1 ? '' : 's'}, ${createdAt.slice(0, 16).replace('T', ' ')} UTC`
      return `<li><a href="/?experiment=${encodeURIComponent(id)}">${escapeHtml(id)}</a> <small>${escapeHtml(about)}</small></li>`
    })
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Not here - tune</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/style.css">
</head>
<body>
<header class="top"><a class="brand" href="/">tune</a></header>
<main>
<section>
<h1 class="sentence">${escapeHtml(what)}</h1>
<p>${links.length > 0 ? 'The store has:' : 'The store has no experiments yet.'}</p>
<ul>${links.join('\n')}</ul>
</section>
</main>
</body>
</html>
`
}
