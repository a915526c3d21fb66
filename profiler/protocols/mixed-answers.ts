/**
 * Checks that concurrent requests get the same answers as single ones. A server that mixes up the
 * rows of a batch is as fast as a correct one, and would win.
 */
import { limitAnswersInMemory } from '../bounded-reader.ts'
import type { RequestBody } from '../model/target.ts'
import { ProtocolError } from '../profiler-errors.ts'
import { areClose, formatValues } from './golden-answers.ts'

/** Values of an answer in order; undefined for a bad answer, which is checked elsewhere. */
type Values = readonly unknown[] | undefined

/** Different requests that are compared. Assumed. */
const maxRequests = 4
/** Time for the single requests: slow servers get fewer of them. Assumed. */
const maxSingleMs = 2_000
/**
 * Relative to the largest number. Larger batches sum in another order, less precisely on some
 * devices.
 */
const tolerance = 0.05

/** Server to check, and the bodies of the load. */
interface Requests {
  readonly protocol: string
  /** URL of the inference call. */
  readonly url: string
  readonly bodies: readonly RequestBody[]
  /** Size of an answer, which limits the answers in memory. */
  readonly answerBytes: number
}

/**
 * Sends up to four different requests one after another, then concurrently, and compares the
 * answers. Servers whose answers to a repeated request vary cannot be judged. A single difference
 * is ignored, because rounding may break a tie between two labels.
 * @param fetchValues sends a request and returns the values of its answer; its errors are ignored,
 * because the load measures how often they happen
 * @throws ProtocolError where answers differ, and the signal's reason
 */
export async function checkConcurrentAnswers(
  { protocol, url, bodies, answerBytes }: Requests,
  signal: AbortSignal,
  fetchValues: (body: RequestBody) => Promise<readonly unknown[]>,
): Promise<void> {
  const distinct = [...new Map(bodies.map((body) => [body.body, body])).values()].slice(
    0,
    Math.min(maxRequests, limitAnswersInMemory(answerBytes)),
  )
  const fetch = (index: number): Promise<Values> =>
    fetchValues(distinct[index]!).catch(() => {
      signal.throwIfAborted()
      return undefined
    })
  const startedMs = performance.now()
  const single: Values[] = []
  while (single.length < distinct.length && performance.now() - startedMs < maxSingleMs)
    single.push(await fetch(single.length))
  const findDifferences = async () => {
    const concurrent = await Promise.all(single.map((_, i) => fetch(i)))
    return single.flatMap((expected, i) =>
      doAgree(expected, concurrent[i]) ? [] : [{ expected, actual: concurrent[i] }],
    )
  }
  if (single.length < 2 || (await findDifferences()).length < 2) return
  for (const [i, values] of single.entries()) if (!doAgree(values, await fetch(i))) return
  const [first, second] = await findDifferences()
  if (first === undefined || second === undefined) return
  const { actual = [], expected = [] } = first
  throw new ProtocolError(
    protocol,
    `${url} answers, but concurrent requests get other answers than single ones: ${formatValues(actual)} in place of ${formatValues(expected)}`,
    'are the rows of its batches mixed up?',
    'answers-differ',
  )
}

/** Whether two answers agree; a bad answer agrees with any. */
function doAgree(a: Values, b: Values): boolean {
  if (a === undefined || b === undefined) return true
  const scale = a.reduce<number>(
    (max, value) => (typeof value === 'number' ? Math.max(max, Math.abs(value)) : max),
    0,
  )
  return areClose(a, b, tolerance * scale)
}
