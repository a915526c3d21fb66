/**
 * What can be taken away: documents under the question that the page asks, and deployment specs.
 */
import { trialsCsv } from '../../../report/trials-csv.ts'
import { download, fill, h } from '../dom.ts'
import type { Section, Shown } from '../section.ts'

/** @param online a server is there that writes documents and specs; a saved page can give its CSV alone. */
export function exportsSection(online: boolean): Section {
  const links = h('p', { class: 'links' })
  const spec = online ? specPreview() : undefined
  const specification = h('pre', { class: 'log', attributes: { tabindex: 0 } })
  const element = h(
    'section',
    { attributes: { id: 'export', 'aria-label': 'Export' } },
    h('h2', {}, 'Export'),
    links,
    spec?.element,
    h(
      'details',
      { class: 'more' },
      h('summary', {}, 'Experiment file to repeat it'),
      specification,
    ),
    h(
      'p',
      { class: 'note' },
      'Each chart saves as SVG by its own button. To print, use the browser.',
    ),
  )
  return {
    element,
    update(shown) {
      specification.textContent = shown.experiment.specification
      fill(
        links,
        csvButton(shown),
        ...(online
          ? documents.flatMap(([file, text]) => [' ', documentLink(shown, file, text)])
          : []),
      )
      spec?.update(shown)
    },
  }
}

/** What the server writes. */
const documents = [
  ['recommendation.json', 'Recommendation (JSON)'],
  ['dashboard.html', 'This page, self-contained (HTML)'],
  ['report.html', 'Report (HTML)'],
] as const

const documentLink = (shown: Shown, file: string, text: string): HTMLElement =>
  h(
    'a',
    {
      class: 'button',
      attributes: {
        href: urlOf(shown, `export/${file}`),
        download: `${shown.experiment.id}-${file}`,
      },
    },
    text,
  )

function csvButton({ experiment, trials, ranker, whatIf }: Shown): HTMLElement {
  const click = () =>
    download(`${experiment.id}.csv`, 'text/csv', trialsCsv(trials, ranker.view(whatIf)))
  return h('button', { attributes: { type: 'button' }, on: { click } }, 'Trials (CSV)')
}

/**
 * The deployment spec of the recommendation for a target that is chosen, to look at and to save.
 */
function specPreview(): Section {
  let current: Shown | undefined
  let asked = ''
  const target = h(
    'select',
    {
      attributes: { 'aria-label': 'Target of the deployment spec' },
      on: { change: () => void show() },
    },
    h('option', { attributes: { value: '' } }, 'choose a target'),
  )
  const spec = h('pre', {
    class: 'log',
    attributes: { tabindex: 0, id: 'spec', 'aria-label': 'Deployment spec' },
  })
  const click = () => download(`${target.value}.txt`, 'text/plain', spec.textContent ?? '')
  const save = h('button', { attributes: { type: 'button' }, on: { click } }, 'Save')
  spec.hidden = true
  save.hidden = true

  async function show(): Promise<void> {
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
  return {
    element: h(
      'div',
      {},
      h('h3', {}, 'Deployment spec of the recommendation'),
      h('p', {}, target, ' ', save),
      spec,
    ),
    update(shown) {
      current = shown
      if (target.options.length === 1)
        target.append(...(shown.experiment.specTargets ?? []).map((name) => h('option', {}, name)))
      const key = JSON.stringify(shown.whatIf) + shown.recommendation.best?.trial
      if (key === asked) return
      asked = key
      if (target.value !== '') void show()
    },
  }
}

/** The question goes along: what is exported is what is shown. */
const urlOf = ({ experiment, whatIf }: Shown, path: string): string =>
  `/api/experiments/${encodeURIComponent(experiment.id)}/${path}?view=${encodeURIComponent(JSON.stringify(whatIf))}`
