/** What can be taken away: documents under the question that the page asks, and deployment specs. */
import { trialsCsv } from '../../../report/trials-csv.ts'
import type { Section, Shown } from '../app.ts'
import { download, fill, h } from '../dom.ts'

/** @param online a server is there that writes documents and specs; a saved page can give its CSV alone. */
export function exportsSection(online: boolean): Section {
  const links = h('p', { class: 'links' })
  const target = h(
    'select',
    { attributes: { 'aria-label': 'Target of the deployment spec' }, on: { change: () => void showSpec() } },
    h('option', { attributes: { value: '' } }, 'choose a target'),
  )
  const spec = h('pre', { class: 'log', attributes: { tabindex: 0, id: 'spec', 'aria-label': 'Deployment spec' } })
  spec.hidden = true
  const save = h(
    'button',
    { attributes: { type: 'button' }, on: { click: () => download(`${target.value}.txt`, 'text/plain', spec.textContent ?? '') } },
    'Save',
  )
  save.hidden = true
  const specs = h('div', {}, h('h3', {}, 'Deployment spec of the recommendation'), h('p', {}, target, ' ', save), spec)
  const specification = h('pre', { class: 'log', attributes: { tabindex: 0 } })
  const element = h(
    'section',
    { attributes: { id: 'export', 'aria-label': 'Export' } },
    h('h2', {}, 'Take away'),
    links,
    online && specs,
    h('details', {}, h('summary', {}, 'The experiment, to repeat it'), specification),
    h('p', { class: 'note' }, 'Each chart saves as SVG by its own button. To print, use the browser.'),
  )
  let current: Shown | undefined

  async function showSpec(): Promise<void> {
    const shown = current
    spec.hidden = target.value === '' || !shown
    save.hidden = spec.hidden
    if (spec.hidden || !shown) return
    const wanted = target.value
    const answer = await fetch(urlOf(shown, `spec/${wanted}`)).then(
      async (a) => ({ ok: a.ok, text: await a.text() }),
      (error: Error) => ({ ok: false, text: `the server cannot be reached: ${error.message}` }),
    )
    if (current !== shown || target.value !== wanted) return
    spec.textContent = answer.text
    save.disabled = !answer.ok
  }

  let asked = ''
  return {
    element,
    update(shown) {
      current = shown
      if (target.options.length === 1) target.append(...(shown.experiment.specTargets ?? []).map((name) => h('option', {}, name)))
      specification.textContent = shown.experiment.specification
      const csv = h(
        'button',
        {
          attributes: { type: 'button' },
          on: { click: () => download(`${shown.experiment.id}.csv`, 'text/csv', trialsCsv(shown.trials, shown.ranker.view(shown.whatIf))) },
        },
        'Trials (CSV)',
      )
      const link = (file: string, text: string) =>
        h('a', { class: 'button', attributes: { href: urlOf(shown, `export/${file}`), download: `${shown.experiment.id}-${file}` } }, text)
      fill(
        links,
        csv,
        ...(online
          ? [
              ' ',
              link('recommendation.json', 'Recommendation (JSON)'),
              ' ',
              link('dashboard.html', 'This page, self-contained (HTML)'),
              ' ',
              link('report.html', 'Report (HTML)'),
            ]
          : []),
      )
      const key = JSON.stringify(shown.whatIf) + shown.recommendation.best?.trial
      if (online && key !== asked) {
        asked = key
        if (target.value !== '') void showSpec()
      }
    },
  }
}

/** The question goes along: what is exported is what is shown. */
const urlOf = ({ experiment, whatIf }: Shown, path: string): string =>
  `/api/experiments/${encodeURIComponent(experiment.id)}/${path}?view=${encodeURIComponent(JSON.stringify(whatIf))}`
