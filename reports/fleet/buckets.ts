/**
 * A model's requests by size, each to the kind of GPU that serves it at the least money (Griggs et
 * al., Mélange, 2024).
 *
 * A replica that carries r_b requests per second of bucket b alone spends 1/r_b of its time on
 * each: what is routed to one adds up to Σ rate_b / r_b replicas. The paper cuts each bucket into
 * slices of which each goes to one kind as a whole; here parts of any size do, which is never
 * dearer, and routing weights are parts anyway.
 */
import type { Bucket, FleetModel, Segment } from './packing.ts'
import { type Programme, solve, type Term } from './programme.ts'

/**
 * Replicas that requests of one a second keep busy: of each bucket its part. Infinity where one of
 * them cannot be served.
 */
const busyPerRps = (
  buckets: readonly Bucket[],
  bucketRps: readonly number[],
  parts: readonly number[],
): number =>
  buckets.reduce(
    (sum, { share }, b) => sum + (parts[b]! * share > 0 ? (parts[b]! * share) / bucketRps[b]! : 0),
    0,
  )

/**
 * Of a mixture of buckets, what a replica carries, requests per second; 0 where it cannot serve one
 * of them. @param parts of each bucket, 0-1
 */
export function mixtureRps(
  buckets: readonly Bucket[],
  bucketRps: readonly number[],
  parts: readonly number[],
): number {
  const share = buckets.reduce((sum, bucket, b) => sum + bucket.share * parts[b]!, 0)
  return share > 0 ? share / busyPerRps(buckets, bucketRps, parts) : 0
}

/** What it carries of all requests as they come. */
export const unroutedRps = (buckets: readonly Bucket[], bucketRps: readonly number[]): number =>
  mixtureRps(
    buckets,
    bucketRps,
    buckets.map(() => 1),
  )

interface Pool {
  /** Of its number of replicas. */
  readonly name: string
  readonly bucketRps: readonly number[]
}

/**
 * Rows of a model with buckets: every bucket goes somewhere, Σ_s r(s, b) = 1, and no segment gets
 * more than its replicas carry, Σ_b r(s, b)·rate_b / r_b ≤ y(s), or y(s) - 1 where one of them may
 * be lost and no request goes elsewhere for it.
 * @param spared names of the variables that are 1 where a segment has replicas, in order of the
 * pools
 */
export function bucketRows(
  prefix: string,
  buckets: readonly Bucket[],
  pools: readonly Pool[],
  demandRps: number,
  spared?: readonly string[],
): { readonly routes: readonly string[]; readonly rows: Programme['rows'] } {
  const routes = pools.flatMap(({ bucketRps }, s) =>
    buckets.flatMap((_, b) => (bucketRps[b]! > 0 ? [{ name: `${prefix}_${s}_${b}`, s, b }] : [])),
  )
  const everyBucket = buckets.map((_, b): Programme['rows'][number] => [
    routes.filter((route) => route.b === b).map(({ name }): Term => [1, name]),
    '= 1',
  ])
  const carried = pools.flatMap(({ name, bucketRps }, s): Programme['rows'][number][] => {
    const busy = routes
      .filter((route) => route.s === s)
      .map(
        (route): Term => [(buckets[route.b]!.share * demandRps) / bucketRps[route.b]!, route.name],
      )
    const most = Math.ceil(busy.reduce((sum, [each]) => sum + each, 0)) + 1
    const lost: Term[] = spared ? [[1, spared[s]!]] : []
    const used: Programme['rows'][number][] = spared
      ? [[[[1, name] as const, [-most, spared[s]!] as const], '<= 0']]
      : []
    return [[[...busy, [-1, name] as const, ...lost], '<= 0'], ...used]
  })
  return { routes: routes.map(({ name }) => name), rows: [...everyBucket, ...carried] }
}

/**
 * A segment with what is routed to it. @param rates of its buckets, as they were packed @param
 * partsAt each level of its model's day, all alike where there is but one
 */
export function routedSegment(
  segment: Segment,
  buckets: readonly Bucket[],
  rates: readonly number[],
  partsAt: readonly (readonly number[])[],
): Segment {
  const levels = partsAt.map((parts) => ({
    parts,
    share: buckets.reduce((sum, bucket, b) => sum + bucket.share * parts[b]!, 0),
    rateRps: mixtureRps(buckets, rates, parts),
  }))
  const { rateRps, parts, share } = levels.at(-1)!
  return { ...segment, rateRps, routed: { parts, share, ...(levels.length > 1 && { levels }) } }
}

/**
 * Of a model that takes turns, one way to route its requests at all levels of its day: who routes
 * need not know the hour then.
 * @param bucketRps of its pools @param levels what is asked, and how many replicas of each pool are
 * there for that
 * @returns parts of each bucket, pool by pool; undefined where these replicas want other ways at
 * other hours
 */
export async function sameRoutes(
  buckets: readonly Bucket[],
  bucketRps: readonly (readonly number[])[],
  levels: readonly { readonly demandRps: number; readonly counts: readonly number[] }[],
): Promise<number[][] | undefined> {
  const routes = bucketRps.flatMap((rates, s) =>
    buckets.flatMap((_, b) => (rates[b]! > 0 ? [{ name: `r${s}_${b}`, s, b }] : [])),
  )
  const rows: Programme['rows'][number][] = [
    ...buckets.map((_, b): Programme['rows'][number] => [
      routes.filter((route) => route.b === b).map(({ name }): Term => [1, name]),
      '= 1',
    ]),
    ...levels.flatMap(({ demandRps, counts }) =>
      counts.flatMap((count, s): Programme['rows'][number][] => {
        const busy = routes.filter((route) => route.s === s)
        return [
          [
            busy.map(
              ({ name, b }): Term => [(buckets[b]!.share * demandRps) / bucketRps[s]![b]!, name],
            ),
            `<= ${count}`,
          ],
        ]
      }),
    ),
  ]
  const solved = await solve(
    {
      cost: routes.map(({ name }): Term => [0, name]),
      rows: rows.filter(([terms]) => terms.length > 0),
      integers: [],
    },
    1,
  )
  if (solved === 'infeasible') return undefined
  const partOf = new Map(routes.map(({ name }, i) => [name, solved.values[i]!]))
  return bucketRps.map((_, s) =>
    buckets.map((__, b) => Math.min(1, Math.max(0, partOf.get(`r${s}_${b}`) ?? 0))),
  )
}

/**
 * The same model routed by input length alone: the length of an answer need not be known
 * beforehand. Undefined where that is all that is told apart already.
 */
export function byInputAlone(model: FleetModel): FleetModel | undefined {
  const { buckets = [], mixedRps } = model
  const keys = buckets.map(({ input, name }) => input ?? name)
  const inputs = [...new Set(keys)]
  if (inputs.length === buckets.length) return undefined
  const within = (input: string) => buckets.map((_, b) => (keys[b] === input ? 1 : 0))
  const merged = inputs.map((input) => ({
    name: input,
    share: buckets.reduce((sum, { share }, b) => sum + share * within(input)[b]!, 0),
  }))
  const segments = model.segments.map((segment) => ({
    ...segment,
    bucketRps: inputs.map((input) => mixtureRps(buckets, segment.bucketRps!, within(input))),
  }))
  return {
    ...model,
    buckets: merged,
    segments,
    ...(mixedRps && {
      mixedRps: (segment: Segment, parts: readonly number[], addedRps: number) =>
        mixedRps(
          segment,
          keys.map((key) => parts[inputs.indexOf(key)]!),
          addedRps,
        ),
    }),
  }
}
