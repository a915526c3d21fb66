/**
 * The plain client of streamed answers (plain-stream-client.mjs), which shares no code with the
 * generator.
 */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

/** Of each answer, in the order of sends, ms; NaN where there was none. */
interface PlainStreams {
  /** First token, from the intended send. */
  readonly ttftMs: number[]
  /** Mean of the tokens after the first. */
  readonly tpotMs: number[]
}

interface PlainAnswer {
  readonly firstMs: number
  readonly lastMs: number
  readonly tokens: number
}

/** @param bodies sent in turn, at the times of `sendsMs` from the start */
export async function plainStreams(
  url: string,
  bodies: readonly string[],
  sendsMs: readonly number[],
): Promise<PlainStreams> {
  const client = promisify(execFile)(
    process.execPath,
    [fileURLToPath(new URL('plain-stream-client.mjs', import.meta.url)), url],
    {
      maxBuffer: 1e8,
    },
  )
  client.child.stdin!.end(
    sendsMs.map((atMs, i) => JSON.stringify({ atMs, body: bodies[i % bodies.length] })).join('\n'),
  )
  const answers = (await client).stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as PlainAnswer | null)
  return {
    ttftMs: answers.map((answer) => answer?.firstMs ?? Number.NaN),
    tpotMs: answers.map((answer) =>
      answer === null ? Number.NaN : (answer.lastMs - answer.firstMs) / (answer.tokens - 1),
    ),
  }
}
