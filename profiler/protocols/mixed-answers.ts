/**
 * Checks that concurrent requests get the same answers as single ones. A server that mixes up the
 * rows of a batch is as fast as a correct one, and would win.
 */

/** Values of an answer in order; undefined for a bad answer, which is checked elsewhere. */
type Values = readonly unknown[] | undefined

const maxRequests = 4
/** Time for the single requests: slow servers get fewer of them. */
const maxSingleMs = 2_000
/**
 * Relative to the largest number. Larger batches sum in another order, less precisely on some
 * devices.
 */
const tolerance = 0.05

/**
 * Sends up to four requests one after another, then concurrently, and compares the answers. Servers
 * whose answers to a repeated request vary cannot be judged. A single difference is ignored,
 * because rounding may break a tie between two labels.
 * @param ask sends the request with this index
 * @returns what is wrong, to follow 'the server answers, but'
 */
export async function mixedUp(
  requests: number,
  ask: (index: number) => Promise<Values>,
): Promise<string | undefined> {
  const startedMs = performance.now()
  const singly: Values[] = []
  while (
    singly.length < Math.min(requests, maxRequests) &&
    performance.now() - startedMs < maxSingleMs
  )
    singly.push(await ask(singly.length))
  const findDifferences = async () => {
    const concurrently = await Promise.all(singly.map((_, i) => ask(i)))
    return singly.flatMap((expected, i) =>
      alike(expected, concurrently[i]) ? [] : [{ expected, actual: concurrently[i] }],
    )
  }
  if (singly.length < 2 || (await findDifferences()).length < 2) return undefined
  for (const [i, values] of singly.entries()) if (!alike(values, await ask(i))) return undefined
  const [first, second] = await findDifferences()
  if (first === undefined || second === undefined) return undefined
  return `requests that come together get other answers than alone: ${brief(first.actual)} in place of ${brief(first.expected)}`
}

/** Whether two answers agree; a bad answer agrees with any. */
function alike(a: Values, b: Values): boolean {
  if (a === undefined || b === undefined) return true
  const scale = a.reduce<number>(
    (max, value) => (typeof value === 'number' ? Math.max(max, Math.abs(value)) : max),
    0,
  )
  const areSame = (x: unknown, y: unknown) =>
    typeof x === 'number' && typeof y === 'number'
      ? Math.abs(x - y) <= tolerance * scale
      : String(x) === String(y)
  return a.length === b.length && a.every((value, i) => areSame(value, b[i]))
}

function brief(values: Values): string {
  const text = JSON.stringify(
    (values ?? [])
      .slice(0, 4)
      .map((value) => (typeof value === 'number' ? Number(value.toPrecision(4)) : value)),
  )
  return text.length > 120 ? `${text.slice(0, 117)}...` : text
}

export const mixedHint = 'are the rows of its batches mixed up?'

/** The first few requests that differ from each other. */
export function differentOnes<Body extends { readonly body: string | Uint8Array }>(
  bodies: readonly Body[],
): Body[] {
  const seen = new Set<unknown>()
  const different: Body[] = []
  for (const body of bodies) {
    if (seen.has(body.body)) continue
    seen.add(body.body)
    different.push(body)
    if (different.length === maxRequests) break
  }
  return different
}
