/**
 * The order in which workers that take one file after the other seldom load something in real time
 * at once.
 */

/**
 * Files by the end of their path, without `.test.ts`, and about how long each takes alone on a
 * machine with two cores, s.
 */
export type ExpectedSeconds = Readonly<Record<string, number>>

/** A file that no list names, s. */
const short = 1.5

/**
 * Several loads at once spoil each other's windows, and each is made again and again, so that all
 * take longer than one after the other. As much time of files of `loading` as of the rest comes at
 * a time, of both the longest first; what is left of the longer of both is last. Of two workers one
 * loads at a time until then, of three hardly ever more than two.
 */
export function inTwoLanes<T>(
  files: readonly T[],
  pathOf: (file: T) => string,
  loading: ExpectedSeconds,
  rest: ExpectedSeconds,
): T[] {
  const [loads, others]: [Timed<T>[], Timed<T>[]] = [[], []]
  for (const file of files) {
    const seconds = expected(pathOf(file), loading)
    if (seconds !== undefined) loads.push({ file, seconds })
    else others.push({ file, seconds: expected(pathOf(file), rest) ?? short })
  }
  for (const lane of [loads, others]) lane.sort((a, b) => b.seconds - a.seconds)
  const order: T[] = []
  const busyS = { loads: 0, others: 0 }
  while (loads.length + others.length > 0) {
    const loadsNext = busyS.loads <= busyS.others
    const next = (
      loadsNext ? (loads.shift() ?? others.shift()) : (others.shift() ?? loads.shift())
    )!
    busyS[loadsNext ? 'loads' : 'others'] += next.seconds
    order.push(next.file)
  }
  return order
}

interface Timed<T> {
  readonly file: T
  readonly seconds: number
}

const expected = (path: string, seconds: ExpectedSeconds) =>
  Object.entries(seconds).find(([name]) => path.endsWith(`/${name}.test.ts`))?.[1]
