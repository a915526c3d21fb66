/** The log of a pod's container, followed as it is written. */
import { setTimeout as sleep } from 'node:timers/promises'
import { type Api, ApiError } from '../api/api.ts'

/**
 * Streams the output of a container from its first byte to its end. A broken stream is reopened,
 * and bytes already written are skipped. Nothing is lost or repeated unless the node rotates the
 * file.
 * @param over whether the container has ended, so that the next stream is the last
 */
export async function followLog(
  api: Api,
  pod: string,
  container: string,
  write: (chunk: Buffer) => void,
  over: () => boolean,
  signal: AbortSignal,
): Promise<void> {
  let writtenBytes = 0
  for (let failures = 0; ; ) {
    const last = over()
    try {
      const path = `/api/v1/namespaces/${api.namespace}/pods/${pod}/log`
      const stream = await api.stream(path, { container, follow: !last }, signal)
      let skip = writtenBytes
      for await (const chunk of stream as AsyncIterable<Buffer>) {
        const fresh = chunk.subarray(Math.min(skip, chunk.length))
        skip -= chunk.length - fresh.length
        writtenBytes += fresh.length
        if (fresh.length > 0) {
          write(fresh)
          failures = 0
        }
      }
      if (last) return
      failures++
    } catch (error) {
      if (signal.aborted) return
      // 400: the container waits to start. 404: the pod is gone, and its log with it.
      if (error instanceof ApiError && error.status === 404) return
      if (++failures > 8 && last) return
    }
    await sleep(Math.min(2_000, 100 * 2 ** failures), undefined, { signal }).catch(() => {}) // aborted: seen above
    if (signal.aborted) return
  }
}
