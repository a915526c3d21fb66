/**
 * Entry point of the dashboard script. It runs in a page of the dashboard server, in a saved page
 * with an embedded snapshot, and in a worker that computes parameter effects.
 */
import { options, render } from 'preact'
import { type Snapshot, unpackTrial } from '../data/page-data.ts'
import { applyAddress, reportMissingTrial, syncAddress } from './address-bar.ts'
import { App, prefersDark } from './app.ts'
import { ExperimentsPage } from './experiments-list.tsx'
import { Page } from './page.tsx'
import { preparePrinting } from './print.ts'
import { AppContext } from './section.tsx'
import { follow, listExperiments, readEmbeddedSnapshot, storeWriteToken } from './source.ts'
import { serveEffectRequests } from './worker.ts'

function start(root: HTMLElement): void {
  // Render synchronously: printing and time slices need each change in the page at once.
  options.debounceRendering = (work) => work()
  const snapshot = readEmbeddedSnapshot()
  if (!snapshot) storeWriteToken()
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
  prefersDark().addEventListener('change', () => app.renderState())
  preparePrinting(app)
  if (snapshot) showSnapshot(app, snapshot)
  else void followServer(app)
}

function showSnapshot(app: App, { experiment, trials, annotations }: Snapshot): void {
  app.setExperiment(experiment)
  app.setAnnotations(annotations)
  app.addTrials(trials.map(unpackTrial))
  app.finishLoading()
}

async function followServer(app: App): Promise<void> {
  syncAddress(app)
  try {
    const { chosen, experiments, writable } = await listExperiments()
    const id = new URLSearchParams(location.search).get('experiment') ?? chosen
    app.setExperiments(experiments, id, writable)
    follow(id, {
      experiment: (experiment) => {
        const isFirst = app.whatIf === undefined
        app.setExperiment(experiment)
        if (isFirst) applyAddress(app, experiment)
      },
      trials: (newTrials) => app.addTrials(newTrials),
      annotations: (annotations) => app.setAnnotations(annotations),
      ready: () =>
        app.finishLoading(() => {
          reportMissingTrial(app)
          // For tests and screenshots: the page is complete.
          document.documentElement.dataset.ready = 'true'
        }),
      problem: (message) => app.setProblem(message),
      connected: (isConnected) =>
        app.setProblem(
          isConnected ? '' : 'Lost the connection to the dashboard server. Reconnecting.',
        ),
    })
  } catch (error) {
    app.setProblem(`The experiments could not be read: ${(error as Error).message}`)
  }
}

if (typeof document === 'undefined')
  serveEffectRequests(self as unknown as Parameters<typeof serveEffectRequests>[0])
else start(document.getElementById('app')!)
