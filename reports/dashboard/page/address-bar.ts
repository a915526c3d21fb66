/** Applies the settings in the page's address, and writes changed settings to it. */
import { getDemand } from '../../../search/objective.ts'
import { formatAddress, parseAddress } from '../data/address.ts'
import type { DashboardExperiment } from '../data/page-data.ts'
import type { App } from './app.ts'

/**
 * Pause after a change before the address is written. A drag changes the settings 60 times a
 * second, and browsers refuse so many addresses.
 */
const writePauseMs = 150

/** Applies the settings in the address, and reports those that name nothing here. */
export function applyAddress(app: App, experiment: DashboardExperiment): void {
  const {
    whatIf,
    planning,
    trial,
    sideBySide = [],
    compared = [],
    refused,
  } = parseAddress(location.search, experiment)
  const isKnown = (id: string) =>
    id !== experiment.id && app.state.experiments.some((e) => e.id === id)
  if (planning) app.setPlanning(planning)
  app.pickTrials(sideBySide)
  app.compare(compared.filter(isKnown))
  app.openTrial(trial)
  app.setWhatIf(whatIf)
  reportUnknownParts(app, [
    ...refused,
    ...compared.filter((id) => !isKnown(id)).map((id) => `compare=${id}`),
  ])
}

/** Closes and reports an opened trial that does not exist. Call it once every trial has arrived. */
export function reportMissingTrial(app: App): void {
  const { trial, answer } = app
  if (trial === undefined || answer?.trials.some(({ number }) => number === trial)) return
  app.openTrial(undefined)
  reportUnknownParts(app, [`trial=${trial}`])
}

function reportUnknownParts(app: App, parts: readonly string[]): void {
  if (parts.length > 0)
    app.setProblem(
      `The address names items that do not exist here: ${parts.join(', ')}. The page applies the rest of the address.`,
    )
}

/** Writes the what-if settings and the view to the address after each change. */
export function syncAddress(app: App): void {
  let timer: ReturnType<typeof setTimeout> | undefined
  app.watch(() => {
    clearTimeout(timer)
    timer = setTimeout(write, writePauseMs)
  })
  function write(): void {
    const { answer, whatIf, trial, state } = app
    if (!answer || !whatIf || state.isLoading) return
    const planning = getDemand(whatIf.objective) ? undefined : app.planning
    const sideBySide = [...state.sideBySide]
    const { compared } = state
    const view = { whatIf, planning, trial, sideBySide, compared }
    history.replaceState(null, '', `${formatAddress(view, answer.experiment)}${location.hash}`)
  }
}
