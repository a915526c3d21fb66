/**
 * A load balancer in front of the replicas of a stage, in the role of a Kubernetes Service: each
 * connection goes to the replica with the fewest connections. It counts the requests and measures
 * how long their answers take. It adds about 0.1 ms to a call, and runs in a thread of its own.
 */
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { resolveThreadEntry } from '../../../profiler/module-entry.ts'

export interface StageRelay {
  readonly url: string
  /** Totals since the start; undefined where requests share connections (HTTP/2, gRPC). */
  read(): RelayTotals | undefined
  close(): Promise<void>
}

export interface RelayTotals {
  readonly requests: number
  /** Requests whose answer has begun. */
  readonly answers: number
  /** Sum over the answers: from the first byte of the request to that of the answer, ms. */
  readonly answerMs: number
}

/** Positions of the counters that both threads share. */
export const relayCounters = { requests: 0, answers: 1, answerUs: 2, multiplexed: 3 } as const

export interface RelayThreadData {
  readonly replicas: readonly { readonly host: string; readonly port: number }[]
  readonly counters: BigInt64Array
}

/** @param urls addresses of the replicas */
export async function startStageRelay(urls: readonly string[]): Promise<StageRelay> {
  const counters = new BigInt64Array(
    new SharedArrayBuffer(BigInt64Array.BYTES_PER_ELEMENT * Object.keys(relayCounters).length),
  )
  const replicas = urls.map((url) => new URL(url))
  const workerData: RelayThreadData = {
    counters,
    replicas: replicas.map(({ hostname, port }) => ({ host: hostname, port: Number(port) })),
  }
  const thread = new Worker(resolveThreadEntry('./stage-relay-thread', import.meta.url), {
    workerData,
  })
  const [port] = (await once(thread, 'message')) as [number]
  thread.unref()
  const count = (name: keyof typeof relayCounters): number =>
    Number(Atomics.load(counters, relayCounters[name]))
  return {
    url: `http://127.0.0.1:${port}`,
    read: () =>
      count('multiplexed') > 0
        ? undefined
        : {
            requests: count('requests'),
            answers: count('answers'),
            answerMs: count('answerUs') / 1000,
          },
    close: async () => {
      await thread.terminate()
    },
  }
}
