/**
 * Reads experiment and trials from a server that sends updates, or from a snapshot inside the page,
 * and sends changes to the server.
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
  /** All annotations, whenever one has changed. */
  annotations?(annotations: SentAnnotations): void
  /** All trials so far have arrived; later ones are new. */
  ready(): void
  problem(message: string): void
  /** The connection was established, or lost. */
  connected(isConnected: boolean): void
}

interface ExperimentList {
  readonly chosen: string
  readonly experiments: readonly ExperimentEntry[]
  /** This page may write notes and tags, and archive and delete experiments. */
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
 * Follows an experiment. The browser reconnects by itself and sends the number of the last trial.
 * @returns a function that ends it
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
 * Stores the write token of the address that the command prints, and removes it from the address
 * bar. It is in the fragment, which browsers do not send to servers.
 */
export function storeWriteToken(): void {
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
 * Changes a note or tags. @returns the annotation after the change
 * @throws Error with the server's reason
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
 * Deletes an experiment with all its trials.
 * @throws Error with the server's reason
 */
export async function deleteExperiment(id: string): Promise<void> {
  await requireSuccess(
    fetch(`/api/experiments/${encodeURIComponent(id)}`, {
      method: 'DELETE',
      headers: createTokenHeaders(),
    }),
  )
}
