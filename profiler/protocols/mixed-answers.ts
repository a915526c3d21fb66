/**
 * Checks that concurrent requests get the same answers as single ones. A server that mixes up the
 * rows of a batch is as fast as a correct one, and would win.
 */

/** Values of an answer in order; undefined for a bad answer, which is checked elsewhere. */
type Values = readonly unknown[] | undefined

const maxRequests = 4
/** Slow servers get fewer requests. */
const longEnoughMs = 2_000
/** Larger batches add in another order, with less precision on some devices. */
const tolerance = 0.05

/**
 * Sends up to four requests one after another, then concurrently. A server whose answers to one
 * request vary shows nothing. A single difference may be a tie that was broken otherwise.
 * @param ask sends request `index`
 * @returns what is wrong, to follow 'the server answers, but'
 */
export async function mixedUp(
  requests: number,
  ask: (index: number) => Promise<Values>,
): Promise<string | undefined> {
  const startedMs = performance.now()
  const alone: Values[] = []
  while (
    alone.length < Math.min(requests, maxRequests) &&
    performance.now() - startedMs < longEnoughMs
  )
    alone.push(await ask(alone.length))
  const differing = async () => {
    const together = await Promise.all(alone.map((_, i) => ask(i)))
    return alone.flatMap((values, i) =>
      alike(values, together[i]) ? [] : [{ i, values, got: together[i] }],
    )
  }
  if (alone.length < 2 || (await differing()).length < 2) return undefined
  for (const [i, values] of alone.entries()) if (!alike(values, await ask(i))) return undefined
  const [first, second] = await differing()
  if (first === undefined || second === undefined) return undefined
  return `requests that come together get other answers than alone: ${brief(first.got)} in place of ${brief(first.values)}`
}

function alike(a: Values, b: Values): boolean {
  if (a === undefined || b === undefined) return true
  const scale = a.reduce<number>(
    (most, value) => (typeof value === 'number' ? Math.max(most, Math.abs(value)) : most),
    0,
  )
  const same = (x: unknown, y: unknown) =>
    typeof x === 'number' && typeof y === 'number'
      ? Math.abs(x - y) <= tolerance * scale
      : String(x) === String(y)
  return a.length === b.length && a.every((value, i) => same(value, b[i]))
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
