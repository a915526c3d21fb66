/**
 * Entry point of the script: in a page whose data come from a server or from a snapshot inside the
 * page, or in the worker of such a page.
 */
import { options, render } from 'preact'
import { type Snapshot, unpackTrial } from '../data/page-data.ts'
import { askByAddress, keepAddress, refuseMissingTrial } from './address-bar.ts'
import { App, prefersDark } from './app.ts'
import { ExperimentsPage } from './experiments-list.tsx'
import { Page } from './page.tsx'
import { preparePrinting } from './print.ts'
import { AppContext } from './section.tsx'
import { follow, listExperiments, readEmbeddedSnapshot, takeToken } from './source.ts'
import { serveEffects } from './worker.ts'

function start(root: HTMLElement): void {
  // Printing and time slices need every change rendered synchronously.
  options.debounceRendering = (work) => work()
  const snapshot = readEmbeddedSnapshot()
  if (!snapshot) takeToken()
  if (!snapshot && location.pathname === '/experiments') {
    render(<ExperimentsPage />, root)
    return
  }
  const app = new App(snapshot === undefined)
  render(
    <AppContext.Provider value={app}>
      <Page />
    </AppContext.Provider>,
    root,
  )
  prefersDark().addEventListener('change', () => app.showAgain())
  preparePrinting(app)
  if (snapshot) showSnapshot(app, snapshot)
  else void followServer(app)
}

function showSnapshot(app: App, { experiment, trials, annotations }: Snapshot): void {
  app.setExperiment(experiment)
  app.setAnnotations(annotations)
  app.addTrials(trials.map(unpackTrial))
  app.finishLoading(() => {})
}

async function followServer(app: App): Promise<void> {
  keepAddress(app)
  try {
    const { chosen, experiments, writable } = await listExperiments()
    const id = new URLSearchParams(location.search).get('experiment') ?? chosen
    app.setExperiments(experiments, id, writable)
    follow(id, {
      experiment: (experiment) => {
        const isFirst = app.whatIf === undefined
        app.setExperiment(experiment)
        if (isFirst) askByAddress(app, experiment)
      },
      trials: (more) => app.addTrials(more),
      annotations: (all) => app.setAnnotations(all),
      ready: () =>
        app.finishLoading(() => {
          refuseMissingTrial(app)
          document.documentElement.dataset.ready = 'true'
        }),
      problem: (message) => app.setProblem(message),
      connected: (isUp) =>
        app.setProblem(isUp ? '' : 'The connection to the dashboard server is lost; trying again.'),
    })
  } catch (error) {
    app.setProblem(`The experiments could not be read: ${(error as Error).message}`)
  }
}

if (typeof document === 'undefined')
  serveEffects(self as unknown as Parameters<typeof serveEffects>[0])
else start(document.getElementById('app')!)
