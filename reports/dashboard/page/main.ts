/**
 * The page: sections in the order in which people ask, fed by a server or by a snapshot inside the
 * page.
 */
import { type ExperimentEntry, type Snapshot, unpackTrial } from '../data.ts'
import { AddressBar } from './address-bar.ts'
import { App } from './app.ts'
import { fill, h } from './dom.ts'
import { showExperiments } from './experiments-list.ts'
import { paperHead, printWell } from './print.ts'
import type { Section } from './section.ts'
import { annotationSection } from './sections/annotation-section.ts'
import { capacitySection } from './sections/capacity.ts'
import { CompareSection } from './sections/compare.ts'
import { compareTrialsSection } from './sections/compare-trials.ts'
import { curvesSection } from './sections/curves.ts'
import { decisionSection } from './sections/decision.ts'
import { trialDetails } from './sections/details.ts'
import { exportsSection } from './sections/exports.ts'
import { mattersSection } from './sections/matters.ts'
import { paretoSection } from './sections/pareto.ts'
import { timelineSection } from './sections/timeline.ts'
import { trialsSection } from './sections/trials.ts'
import { titleOf, verdictSection } from './sections/verdict-section.ts'
import { whatIfSection } from './sections/whatif.ts'
import { embeddedSnapshot, follow, listExperiments, takeToken } from './source.ts'
import { serveEffects } from './worker.ts'

const stateWords = {
  running: '▶ running',
  interrupted: '‖ interrupted',
  done: '■ done',
  failed: '✕ failed',
} as const

async function start(root: HTMLElement): Promise<void> {
  const snapshot = embeddedSnapshot()
  const online = snapshot === undefined
  if (online) takeToken()
  if (online && location.pathname === '/experiments')
    return showExperiments(
      root,
      themeButton(() => {}),
    )
  const details = trialDetails(
    () => app,
    (number) => address.openTrial(number),
  )
  const app = new App({
    online,
    openTrial: (number) => app.shown && details.open(app.shown, number),
  })
  const choice = h('select', { attributes: { id: 'experiment', 'aria-label': 'Experiment' } })
  const notice = h('p', { class: 'problem', attributes: { role: 'alert' } })
  notice.hidden = true
  const problem = (message: string) => {
    notice.hidden = message === ''
    notice.textContent = message
  }
  const address = new AddressBar(app, problem)
  const elements = [
    ...app.add(paperHead(), verdictSection(), whatIfSection(app)),
    ...app.add(paretoSection(app)),
    h('div', { class: 'decide' }, ...app.add(decisionSection(app), curvesSection(app))),
    ...app.add(capacitySection(), annotationSection(app, problem), mattersSection(app)),
    ...app.add(
      trialsSection(app),
      compareTrialsSection(app),
      timelineSection(app),
      new CompareSection(app, address),
      exportsSection(online),
    ),
  ]
  const state = stateLine(app)
  app.add(state, address)
  fill(
    root,
    header(app, choice, state.element),
    h('main', {}, notice, ...elements),
    details.element,
  )
  redrawWithTheme(app)
  printWell(app)
  if (snapshot) return showSnapshot(app, choice, snapshot)
  await followServer(app, choice, address, problem)
}

const header = (app: App, choice: HTMLElement, state: HTMLElement): HTMLElement =>
  h(
    'header',
    { class: 'top' },
    h('a', { class: 'brand', attributes: { href: '#verdict' } }, 'tune'),
    choice,
    state,
    h(
      'nav',
      { attributes: { 'aria-label': 'Sections' } },
      ...sections.map(([id, text]) => h('a', { attributes: { href: `#${id}` } }, text)),
      app.actions.online && h('a', { attributes: { href: '/experiments' } }, 'All experiments'),
    ),
    themeButton(() => app.showAgain()),
  )

/** How far the experiment is, here and in the page's title. */
function stateLine(app: App): Section {
  const element = h('span', { class: 'state', attributes: { role: 'status' } })
  return {
    element,
    update(shown) {
      const { experiment, trials } = shown
      const running = experiment.state === 'running'
      element.className = `state ${experiment.state}`
      const loading = app.loading ? ', loading' : ''
      const many = running ? `, ${trials.length} of at most ${experiment.maxTrials}` : ''
      element.textContent = `${stateWords[experiment.state]}${many}${app.actions.online ? loading : ', saved copy'}`
      document.title = titleOf(shown)
    },
  }
}

function showSnapshot(
  app: App,
  choice: HTMLElement,
  { experiment, trials, annotations }: Snapshot,
): void {
  fill(choice, h('option', {}, experiment.id))
  app.loading = false
  app.setExperiment(experiment)
  app.setAnnotations(annotations)
  app.addTrials(trials.map(unpackTrial))
}

async function followServer(
  app: App,
  choice: HTMLSelectElement,
  address: AddressBar,
  problem: (message: string) => void,
): Promise<void> {
  try {
    const { chosen, experiments, writable } = await listExperiments()
    app.experiments = experiments
    app.writable = writable
    const id = new URLSearchParams(location.search).get('experiment') ?? chosen
    const newestFirst = [...experiments]
      .reverse()
      .filter((e) => e.id === id || e.annotation?.archivedAt === undefined)
    fill(
      choice,
      ...newestFirst.map((e) =>
        h('option', { attributes: { value: e.id, selected: e.id === id } }, entryText(e)),
      ),
    )
    choice.addEventListener('change', () =>
      location.assign(`/?experiment=${encodeURIComponent(choice.value)}`),
    )
    follow(id, {
      experiment: (e) => {
        const first = app.whatIf === undefined
        app.setExperiment(e)
        if (first) address.open(e)
      },
      trials: (more) => app.addTrials(more),
      annotations: (all) => app.setAnnotations(all),
      ready: () =>
        app.loaded(() => {
          openAskedTrial(app, address)
          document.documentElement.dataset.ready = 'true'
        }),
      problem,
      connected: (up) =>
        problem(up ? '' : 'The connection to the dashboard server is lost; trying again.'),
    })
  } catch (error) {
    problem(`The experiments could not be read: ${(error as Error).message}`)
  }
}

function openAskedTrial(app: App, address: AddressBar): void {
  const number = address.takeTrial()
  if (number === undefined) return
  if (app.shown?.trials.some((t) => t.number === number)) app.actions.openTrial(number)
  else {
    address.refuse([`trial=${number}`])
    address.openTrial(undefined)
  }
}

const entryText = ({ id, provenance, createdAt }: ExperimentEntry): string =>
  `${id} · ${provenance} · ${createdAt.slice(0, 16).replace('T', ' ')}`

const sections = [
  ['verdict', 'Overview'],
  ['pareto', 'SLO trade-off'],
  ['decide', 'Cost and capacity'],
  ['curves', 'Load curves'],
  ['capacity', 'Capacity plan'],
  ['matters', 'Parameter importance'],
  ['trials', 'Trials'],
  ['export', 'Export'],
] as const

/** Follows the system until it is pressed. */
function themeButton(changed: () => void): HTMLElement {
  const button = h(
    'button',
    {
      class: 'quiet',
      attributes: { type: 'button', 'aria-label': 'Switch between dark and light' },
    },
    '◑',
  )
  button.addEventListener('click', () => {
    const dark =
      document.documentElement.dataset.theme ??
      (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light')
    document.documentElement.dataset.theme = dark === 'dark' ? 'light' : 'dark'
    changed()
  })
  return button
}

function redrawWithTheme(app: App): void {
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => app.showAgain())
}

if (typeof document === 'undefined')
  serveEffects(self as unknown as Parameters<typeof serveEffects>[0])
else void start(document.getElementById('app')!)
