/**
 * Quantities as people write them: '50ms', '500 rps', '20%', '4GiB', '$5'. Each parser throws
 * UnitError with what it expects.
 */

export class UnitError extends Error {
  /** Usage error: see exit-codes.ts. */
  readonly exitCode = 2

  constructor(
    message: string,
    readonly hint: string,
  ) {
    super(message)
    this.name = 'UnitError'
  }
}

const quantity = /^([+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*(.*)$/i

/** Splits '50 ms' into [50, 'ms']; undefined when it does not start with a number. */
function splitUnit(text: string): [number, string] | undefined {
  const match = quantity.exec(text.trim())
  if (!match) return undefined
  return [Number(match[1]!.replaceAll('_', '')), match[2]!.trim()]
}

interface QuantityFormat {
  readonly what: string
  readonly examples: string
  /** Unit in lower case without blanks → factor to the base unit; '' allows a bare number. */
  readonly units: Readonly<Record<string, number>>
  readonly allowsZero: boolean
  /** Suggested when the unit is missing. */
  readonly withUnit: string
}

function parseQuantity(input: string | number, kind: QuantityFormat): number {
  const shown = typeof input === 'number' ? String(input) : `'${input}'`
  const expected = `write ${kind.what} such as ${kind.examples}`
  const [value, unit] =
    typeof input === 'number' ? [input, ''] : (splitUnit(input) ?? [Number.NaN, ''])
  if (!Number.isFinite(value)) throw new UnitError(`${shown} is not ${kind.what}`, expected)
  const spelling = unit.toLowerCase().replaceAll(/\s+/g, '')
  const factor = Object.hasOwn(kind.units, spelling) ? kind.units[spelling] : undefined
  if (factor === undefined) {
    if (unit === '')
      throw new UnitError(
        `${shown} has no unit`,
        `write ${kind.withUnit.replaceAll('N', String(value))}`,
      )
    throw new UnitError(`${shown} has the unknown unit '${unit}'`, expected)
  }
  if (value < 0) throw new UnitError(`${shown} is negative`, expected)
  if (value === 0 && !kind.allowsZero)
    throw new UnitError(`${shown} is zero; it must be more`, expected)
  return Number((value * factor).toPrecision(14))
}

const expandSpellings = (spellings: string, factor: number): Record<string, number> =>
  Object.fromEntries(spellings.split(' ').map((spelling) => [spelling, factor]))

/** The micro sign and the Greek letter look the same. */
const durationUnits = {
  ...expandSpellings('us \u00b5s \u03bcs usec', 0.001),
  ...expandSpellings('ms msec msecs millisecond milliseconds', 1),
  ...expandSpellings('s sec secs second seconds', 1000),
  ...expandSpellings('m min mins minute minutes', 60_000),
  ...expandSpellings('h hr hrs hour hours', 3_600_000),
  ...expandSpellings('d day days', 86_400_000),
}

/** Ten years. */
const maxDurationMs = 10 * 365 * 86_400_000

/**
 * '50ms', '2s', '10m', '1h30m' → milliseconds, more than 0 and of ten years at most. A bare number
 * is refused: its unit would be a guess.
 */
export function parseDurationMs(input: string | number): number {
  const ms = parseDuration(input)
  if (ms > maxDurationMs)
    throw new UnitError(
      `${quoteInput(input)} is longer than ten years`,
      'write, for example, 50ms, 2s or 10m',
    )
  return ms
}

function parseDuration(input: string | number): number {
  const parts =
    typeof input === 'string'
      ? input.replaceAll(/\s+/g, '').match(/^(\d+(?:\.\d+)?[hms]+){2,}$/)
      : null
  if (parts) {
    const pieces =
      String(input)
        .replaceAll(/\s+/g, '')
        .match(/\d+(?:\.\d+)?(?:ms|[hms])/g) ?? []
    return pieces.reduce((sum, piece) => sum + parseDurationMs(piece), 0)
  }
  return parseQuantity(input, {
    what: 'a duration',
    examples: '50ms, 2s, 10m, 1h30m',
    units: durationUnits,
    allowsZero: false,
    withUnit: 'Nms for milliseconds, or Ns for seconds',
  })
}

const bandwidthUnits: Readonly<Record<string, number>> = {
  'GB/s': 1,
  'MB/s': 1e-3,
  'Gb/s': 1 / 8,
  Gbps: 1 / 8,
  'Gbit/s': 1 / 8,
}

/**
 * '25 GB/s', '200 Gb/s', '200 Gbps' → GB a second, more than 0. Bytes have a capital B, bits a
 * small one. A bare number is refused.
 */
export function parseBandwidthGBs(input: string | number): number {
  const [value, unit] =
    typeof input === 'number' ? [input, ''] : (splitUnit(input) ?? [Number.NaN, ''])
  const factor = Object.hasOwn(bandwidthUnits, unit) ? bandwidthUnits[unit]! : Number.NaN
  if (!(value * factor > 0))
    throw new UnitError(
      `${quoteInput(input)} is not a bandwidth`,
      'write, for example, 25 GB/s or 200 Gb/s',
    )
  return value * factor
}

const rateUnits: Readonly<Record<string, number>> = (() => {
  const units: Record<string, number> = { '': 1, k: 1000 }
  const spans = { s: 's sec second', min: 'min minute', h: 'h hr hour', d: 'd day' }
  const seconds = { s: 1, min: 60, h: 3600, d: 86_400 }
  for (const [thousands, factor] of [['', 1] as const, ['k', 1000] as const]) {
    for (const unit of ['rps', 'qps']) units[thousands + unit] = factor
    for (const unit of ['rpm', 'qpm']) units[thousands + unit] = factor / 60
    for (const [span, spellings] of Object.entries(spans))
      for (const spelling of spellings.split(' '))
        for (const requests of ['', 'req', 'reqs', 'request', 'requests'])
          for (const per of ['/', 'per'])
            units[`${thousands}${requests}${per}${spelling}`] =
              factor / seconds[span as keyof typeof seconds]
  }
  return units
})()

/** '500 rps', '500/s', 500, '30k/min', '500 rpm' → requests per second, more than 0. */
export function parseRateRps(input: string | number): number {
  return parseQuantity(input, {
    what: 'a rate',
    examples: '500 rps, 500/s, 30k/min, 500 rpm',
    units: rateUnits,
    allowsZero: false,
    withUnit: 'N rps',
  })
}

/** '20%', 0.2 → 0.2. In [0, 1]; a bare number over 1 is refused: 20 could mean 20 % or 20 times. */
export function parseShare(input: string | number): number {
  const value = parseQuantity(input, {
    what: 'a share',
    examples: '20% or 0.2',
    units: { '%': 0.01, '': 1 },
    allowsZero: true,
    withUnit: 'N%',
  })
  if (value > 1)
    throw new UnitError(
      `${quoteInput(input)} is more than 100 %`,
      value <= 100 ? `write ${value}%` : 'write a share of at most 100 % such as 20% or 0.2',
    )
  return value
}

/** More calls of one request are a loop that a pipeline should not have. */
const maxCallRatio = 100

/** '30%', 3 → mean number of calls per request, more than 0. */
export function parseCallRatio(input: string | number): number {
  const ratio = parseQuantity(input, {
    what: 'a number of calls per request',
    examples: '1, 3 or 30%',
    units: { '%': 0.01, '': 1 },
    allowsZero: false,
    withUnit: 'N',
  })
  if (ratio > maxCallRatio)
    throw new UnitError(
      `${quoteInput(input)} is more than ${maxCallRatio} calls per request`,
      `write at most ${maxCallRatio}`,
    )
  return ratio
}

/** Parses '$5', '5 USD', '$5/hour' or 5 to dollars, more than 0. */
export function parseMoney(input: string | number): number {
  const amount =
    typeof input === 'string'
      ? input
          .trim()
          .replace(/^\$\s*/, '')
          .replace(/\/h(our)?$/, '')
      : input
  return parseQuantity(amount, {
    what: 'an amount of money',
    examples: '$5 or 5',
    units: { '': 1, usd: 1, $: 1 },
    allowsZero: false,
    withUnit: '$N',
  })
}

/** '4GiB', '512 MiB', '8GB' → MiB, more than 0. A bare number is refused. */
export function parseMemoryMiB(input: string | number): number {
  const units = {
    kib: 1 / 1024,
    ki: 1 / 1024,
    mib: 1,
    mi: 1,
    gib: 1024,
    gi: 1024,
    mb: 1e6 / 2 ** 20,
    gb: 1e9 / 2 ** 20,
  }
  return parseQuantity(input, {
    what: 'an amount of memory',
    examples: '4GiB, 512MiB',
    units,
    allowsZero: false,
    withUnit: 'NGiB or NMiB',
  })
}

/**
 * 'p95', 'p99.9', 95, '99%' → 0.95, 0.999, 0.95, 0.99. In (0, 1) exclusive. 0.99 is refused: it is
 * p99 as a share, or p0.99.
 */
export function parsePercentile(input: string | number): number {
  const text = String(input).trim().toLowerCase().replace(/^p/, '').replace(/%$/, '')
  const value = splitUnit(text)
  if (value === undefined || value[1] !== '' || !(value[0] > 0 && value[0] < 100))
    throw new UnitError(
      `${quoteInput(input)} is not a percentile`,
      'write a percentile above 0 and below 100 such as p50, p95, p99, p99.9',
    )
  if (value[0] < 1)
    throw new UnitError(
      `${quoteInput(input)} may be a share or a percentile below p1`,
      `write p${Number((value[0] * 100).toPrecision(12))}`,
    )
  return Number((value[0] / 100).toPrecision(12))
}

/** Parses a whole number of at least `min`, also as a text. */
export function parseCount(input: string | number, min: number): number {
  const value =
    typeof input === 'string' && input.trim() !== '' ? Number(input.replaceAll('_', '')) : input
  if (typeof value !== 'number' || !Number.isSafeInteger(value))
    throw new UnitError(
      `${quoteInput(input)} is not a whole number`,
      `write a whole number of at least ${min}`,
    )
  if (value < min)
    throw new UnitError(
      `${quoteInput(input)} is less than ${min}`,
      `write a whole number of at least ${min}`,
    )
  return value
}

const quoteInput = (input: string | number) =>
  typeof input === 'number' ? String(input) : `'${input}'`

/**
 * 50 → '50ms', 2000 → '2s', 90000 → '90s', 600000 → '10m': exact, and read back by parseDurationMs.
 */
export function formatDuration(ms: number): string {
  for (const [unit, factor] of [
    ['h', 3_600_000],
    ['m', 60_000],
    ['s', 1000],
  ] as const)
    if (ms >= factor && ms % factor === 0) return `${ms / factor}${unit}`
  return `${ms}ms`
}

/** 0.2 → '20%'. */
export const formatShare = (share: number): string => `${Number((share * 100).toPrecision(12))}%`

/** 0.99 → 'p99', 0.999 → 'p99.9'. */
export const formatPercentile = (percentile: number): string =>
  `p${Number((percentile * 100).toPrecision(12))}`
