/** The page: sections in the order in which people ask, fed by a server or by a snapshot inside the page. */
import { unpackTrial } from '../data.ts'
import { App } from './app.ts'
import { fill, h } from './dom.ts'
import { capacitySection } from './sections/capacity.ts'
import { compareSection } from './sections/compare.ts'
import { curvesSection } from './sections/curves.ts'
import { trialDetails } from './sections/details.ts'
import { exportsSection } from './sections/exports.ts'
import { mattersSection } from './sections/matters.ts'
import { paretoSection } from './sections/pareto.ts'
import { timelineSection } from './sections/timeline.ts'
import { trialsSection } from './sections/trials.ts'
import { titleOf, verdictSection } from './sections/verdict-section.ts'
import { whatIfSection } from './sections/whatif.ts'
import { embeddedSnapshot, follow, listExperiments } from './source.ts'
import { serveEffects } from './worker.ts'

const stateWords = { running: '▶ running', interrupted: '‖ interrupted', done: '■ done', failed: '✕ failed' } as const

async function start(root: HTMLElement): Promise<void> {
  const snapshot = embeddedSnapshot()
  const online = snapshot === undefined
  const details = trialDetails(online)
  const app = new App({ online, openTrial: (number) => app.shown && details.open(app.shown, number) })
  const status = h('span', { class: 'state', attributes: { role: 'status' } })
  const choice = h('select', { attributes: { id: 'experiment', 'aria-label': 'Experiment' } })
  const notice = h('p', { class: 'problem', attributes: { role: 'alert' } })
  notice.hidden = true
  const header = h(
    'header',
    { class: 'top' },
    h('a', { class: 'brand', attributes: { href: '#pareto' } }, 'tune'),
    choice,
    status,
    h(
      'nav',
      { attributes: { 'aria-label': 'Sections' } },
      ...sections.map(([id, text]) => h('a', { attributes: { href: `#${id}` } }, text)),
    ),
    themeButton(app),
  )
  const state = {
    element: status,
    update({ experiment, trials }: NonNullable<App['shown']>) {
      const running = experiment.state === 'running'
      status.className = `state ${experiment.state}`
      const loading = app.loading ? ', loading' : ''
      status.textContent = `${stateWords[experiment.state]}${running ? `, ${trials.length} of at most ${experiment.maxTrials}` : ''}${online ? loading : ', saved copy'}`
      document.title = titleOf(app.shown!)
    },
  }
  const [verdict, question, pareto, capacity, curves, matters, trials, timeline, compare, exports] = app.add(
    verdictSection(),
    whatIfSection(app),
    paretoSection(app),
    capacitySection(),
    curvesSection(app),
    mattersSection(app),
    trialsSection(app),
    timelineSection(app),
    compareSection(app),
    exportsSection(online),
  )
  app.add(state)
  fill(
    root,
    header,
    h('main', {}, notice, verdict, question, pareto, capacity, curves, matters, trials, timeline, compare, exports),
    details.element,
  )
  redrawWithTheme(app)

  const problem = (message: string) => {
    notice.hidden = message === ''
    notice.textContent = message
  }
  if (snapshot) {
    const { experiment } = snapshot
    fill(choice, h('option', {}, experiment.id))
    app.loading = false
    app.setExperiment(experiment)
    app.addTrials(snapshot.trials.map(unpackTrial))
    return
  }
  try {
    const { chosen, experiments } = await listExperiments()
    app.experiments = experiments
    const id = new URLSearchParams(location.search).get('experiment') ?? chosen
    fill(
      choice,
      ...[...experiments]
        .reverse()
        .map((e) =>
          h(
            'option',
            { attributes: { value: e.id, selected: e.id === id } },
            `${e.id} · ${e.provenance} · ${e.createdAt.slice(0, 16).replace('T', ' ')}`,
          ),
        ),
    )
    choice.addEventListener('change', () => location.assign(`/?experiment=${encodeURIComponent(choice.value)}`))
    follow(id, {
      experiment: (e) => app.setExperiment(e),
      trials: (more) => app.addTrials(more),
      ready: () => {
        app.loading = false
        app.refresh()
        document.documentElement.dataset.ready = 'true'
      },
      problem,
      connected: (up) => problem(up ? '' : 'The connection to the dashboard server is lost; trying again.'),
    })
  } catch (error) {
    problem(`The experiments could not be read: ${(error as Error).message}`)
  }
}

const sections = [
  ['pareto', 'Pareto'],
  ['capacity', 'Capacity'],
  ['curves', 'Load'],
  ['matters', 'What matters'],
  ['trials', 'Trials'],
  ['export', 'Take away'],
] as const

/** Follows the system until it is pressed. */
function themeButton(app: App): HTMLElement {
  const button = h('button', { class: 'quiet', attributes: { type: 'button', 'aria-label': 'Dark or light' } }, '◑')
  button.addEventListener('click', () => {
    const dark = document.documentElement.dataset.theme ?? (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light')
    document.documentElement.dataset.theme = dark === 'dark' ? 'light' : 'dark'
    app.refresh()
  })
  return button
}

function redrawWithTheme(app: App): void {
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => app.refresh())
  addEventListener('beforeprint', () => app.refresh())
  addEventListener('afterprint', () => app.refresh())
}

if (typeof document === 'undefined') serveEffects(self as unknown as Parameters<typeof serveEffects>[0])
else void start(document.getElementById('app')!)
