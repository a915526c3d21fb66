/** Where experiment and trials come from: a server that goes on telling, or a snapshot inside the page. */

import type { FinishedTrial } from '../../../trials/types.ts'
import { type DashboardExperiment, type ExperimentEntry, type Snapshot, unpackTrial } from '../data.ts'

interface Listener {
  experiment(experiment: DashboardExperiment): void
  trials(trials: readonly FinishedTrial[]): void
  /** Everything that was there has arrived; what follows is news. */
  ready(): void
  problem(message: string): void
  /** The connection came back, or was lost. */
  connected(up: boolean): void
}

interface ExperimentList {
  readonly chosen: string
  readonly experiments: readonly ExperimentEntry[]
}

/** The snapshot that a self-contained page carries; undefined in a page from the server. */
export function embeddedSnapshot(): Snapshot | undefined {
  const text = document.getElementById('snapshot')?.textContent
  return text ? (JSON.parse(text) as Snapshot) : undefined
}

export async function listExperiments(): Promise<ExperimentList> {
  const answer = await fetch('/api/experiments')
  if (!answer.ok) throw new Error(await answer.text())
  return (await answer.json()) as ExperimentList
}

/** Follows an experiment. Returns what ends it. The browser reconnects by itself and says which trial it had last. */
export function follow(id: string, listener: Listener): () => void {
  const source = new EventSource(`/api/experiments/${encodeURIComponent(id)}/stream`)
  const data = (event: Event) => (event as MessageEvent<string>).data
  source.addEventListener('open', () => listener.connected(true))
  source.addEventListener('experiment', (event) => listener.experiment(JSON.parse(data(event)) as DashboardExperiment))
  source.addEventListener('trials', (event) => listener.trials((JSON.parse(data(event)) as string[]).map(unpackTrial)))
  source.addEventListener('ready', () => listener.ready())
  source.addEventListener('problem', (event) => {
    listener.problem(data(event))
    source.close()
  })
  source.addEventListener('error', () => listener.connected(false))
  return () => source.close()
}
