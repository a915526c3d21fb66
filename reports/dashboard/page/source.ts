/**
 * Sources of experiment and trials: a server that sends updates, or a snapshot inside the
 * page.
 */

import type { Annotation, AnnotationChange } from '../../../trials/annotation.ts'
import type { FinishedTrial } from '../../../trials/types.ts'
import {
  type DashboardExperiment,
  type ExperimentEntry,
  type ExperimentOutcome,
  type SentAnnotations,
  type Snapshot,
  unpackTrial,
} from '../data/page-data.ts'

interface Listener {
  experiment(experiment: DashboardExperiment): void
  trials(trials: readonly FinishedTrial[]): void
  /** All of them, whenever one has changed. */
  annotations?(annotations: SentAnnotations): void
  /** Everything that was there has arrived; what follows is news. */
  ready(): void
  problem(message: string): void
  /** The connection came back, or was lost. */
  connected(up: boolean): void
}

interface ExperimentList {
  readonly chosen: string
  readonly experiments: readonly ExperimentEntry[]
  /** This page may write notes and tags, put experiments away and delete them. */
  readonly writable: boolean
}

/** Reads the snapshot that a self-contained page carries; undefined in a page from the server. */
export function readEmbeddedSnapshot(): Snapshot | undefined {
  const text = document.getElementById('snapshot')?.textContent
  return text ? (JSON.parse(text) as Snapshot) : undefined
}

export async function listExperiments(): Promise<ExperimentList> {
  return (
    await requireSuccess(fetch('/api/experiments', { headers: createTokenHeaders() }))
  ).json() as Promise<ExperimentList>
}

export async function listOutcomes(): Promise<readonly ExperimentOutcome[]> {
  return (await requireSuccess(fetch('/api/outcomes'))).json() as Promise<
    readonly ExperimentOutcome[]
  >
}

/** @throws Error with the message of the server if it rejects the request */
async function requireSuccess(response: Promise<Response>): Promise<Response> {
  const answer = await response
  if (!answer.ok) throw new Error((await answer.text()).trim())
  return answer
}

/**
 * Follows an experiment. Returns what ends it. The browser reconnects by itself and says which
 * trial it had last.
 */
export function follow(id: string, listener: Listener): () => void {
  const source = new EventSource(`/api/experiments/${encodeURIComponent(id)}/stream`)
  const data = (event: Event) => (event as MessageEvent<string>).data
  source.addEventListener('open', () => listener.connected(true))
  source.addEventListener('experiment', (event) =>
    listener.experiment(JSON.parse(data(event)) as DashboardExperiment),
  )
  source.addEventListener('trials', (event) =>
    listener.trials((JSON.parse(data(event)) as string[]).map(unpackTrial)),
  )
  source.addEventListener('annotations', (event) =>
    listener.annotations?.(JSON.parse(data(event)) as SentAnnotations),
  )
  source.addEventListener('ready', () => listener.ready())
  source.addEventListener('problem', (event) => {
    listener.problem(data(event))
    source.close()
  })
  source.addEventListener('error', () => listener.connected(false))
  return () => source.close()
}

const tokenKey = 'tune-token'

/**
 * The right to write comes in the address that the command prints, which no page shows and no
 * server is sent: kept, and taken out of the address.
 */
export function takeToken(): void {
  const [, token] = /^#token=([\w-]+)$/.exec(location.hash) ?? []
  if (token === undefined) return
  localStorage.setItem(tokenKey, token)
  history.replaceState(null, '', location.pathname + location.search)
}

const createTokenHeaders = (): Record<string, string> => {
  const token = localStorage.getItem(tokenKey)
  return token === null ? {} : { 'x-tune-token': token }
}

/** The object of a note or tags: an experiment, or one of its trials. */
export interface AnnotationTarget {
  readonly experimentId: string
  readonly trial?: number
}

/**
 * Resolves with what stands there now.
 * @throws Error with what the server says against it
 */
export async function annotate(
  { experimentId, trial }: AnnotationTarget,
  change: AnnotationChange,
): Promise<Annotation> {
  const answer = await requireSuccess(
    fetch(`/api/experiments/${encodeURIComponent(experimentId)}/annotation`, {
      method: 'POST',
      headers: { ...createTokenHeaders(), 'content-type': 'application/json' },
      body: JSON.stringify({ trial, ...change }),
    }),
  )
  return (await answer.json()) as Annotation
}

/**
 * Removes an experiment with all its trials, for good.
 * @throws Error with what the server says against it
 */
export async function deleteExperiment(id: string): Promise<void> {
  await requireSuccess(
    fetch(`/api/experiments/${encodeURIComponent(id)}`, {
      method: 'DELETE',
      headers: createTokenHeaders(),
    }),
  )
}
