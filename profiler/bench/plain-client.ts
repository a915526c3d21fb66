/** The plain open-loop client in C (plain-client.c), which shares no code with the generator. */
import { execFile, execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

/** Latency of each send in its order, ms; NaN for one that was not answered. */
type PlainClient = (
  url: string,
  path: string,
  body: string,
  sendsMs: Iterable<number>,
) => Promise<Float64Array>

/** Compiled into a folder; undefined without a C compiler. */
export function compilePlainClient(folder: string): PlainClient | undefined {
  const binary = join(folder, 'plain-client')
  try {
    execFileSync(
      'cc',
      ['-O2', '-pthread', '-o', binary, fileURLToPath(new URL('plain-client.c', import.meta.url))],
      { stdio: 'ignore' },
    )
  } catch {
    return undefined
  }
  return async (url, path, body, sendsMs) => {
    const client = promisify(execFile)(binary, [new URL(url).port, path, body], { maxBuffer: 1e9 })
    client.child.stdin!.end([...sendsMs].join('\n'))
    const tookMs = (await client).stdout.trim().split('\n').map(Number)
    return Float64Array.from(tookMs, (ms) => (ms < 0 ? Number.NaN : ms))
  }
}
