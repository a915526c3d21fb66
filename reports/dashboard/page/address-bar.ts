/** Keeps the browser's address to what the page asks, and asks what it says when the page opens. */
import { getDemand } from '../../../search/objective.ts'
import { formatAddress, parseAddress } from '../data/address.ts'
import type { DashboardExperiment } from '../data/page-data.ts'
import type { App } from './app.ts'

/** A drag changes the question sixty times a second; browsers refuse so many addresses. */
const pauseMs = 150

/** Asks what the address says. */
export function askByAddress(app: App, experiment: DashboardExperiment): void {
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
  if (planning) app.plan(planning)
  app.pickTrials(sideBySide)
  app.compare(compared.filter(isKnown))
  app.openTrial(trial)
  app.ask(whatIf)
  refuse(app, [...refused, ...compared.filter((id) => !isKnown(id)).map((id) => `compare=${id}`)])
}

/** Once every trial has arrived: the address may name one that does not exist. */
export function refuseMissingTrial(app: App): void {
  const { trial, answer } = app
  if (trial === undefined || answer?.trials.some(({ number }) => number === trial)) return
  app.openTrial(undefined)
  refuse(app, [`trial=${trial}`])
}

function refuse(app: App, parts: readonly string[]): void {
  if (parts.length > 0)
    app.setProblem(
      `The address names items that do not exist here: ${parts.join(', ')}. The page applies the rest of the address.`,
    )
}

export function keepAddress(app: App): void {
  let timer: ReturnType<typeof setTimeout> | undefined
  app.watch(() => {
    clearTimeout(timer)
    timer = setTimeout(write, pauseMs)
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
