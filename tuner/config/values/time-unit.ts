/** Units of times in files, and how a header or a user names them. */
export const timeUnits = ['s', 'ms', 'us', 'ns'] as const
export type TimeUnit = (typeof timeUnits)[number]

/** Milliseconds of one. */
export const millisecondsPer: Readonly<Record<TimeUnit, number>> = {
  s: 1000,
  ms: 1,
  us: 1e-3,
  ns: 1e-6,
}

const unitWords: Readonly<Record<string, TimeUnit>> = {
  s: 's',
  sec: 's',
  secs: 's',
  second: 's',
  seconds: 's',
  ms: 'ms',
  msec: 'ms',
  millis: 'ms',
  milliseconds: 'ms',
  us: 'us',
  µs: 'us',
  usec: 'us',
  micros: 'us',
  microseconds: 'us',
  ns: 'ns',
  nsec: 'ns',
  nanos: 'ns',
  nanoseconds: 'ns',
}
const timeWords = new Set(
  'at time timestamp arrival arrived t offset relative start started sent request'.split(' '),
)

/**
 * Words of a name in lower case, without the unit at its end.
 * @returns `unit` of 'duration_ms', 'latencySeconds', 'at (s)'; absent if the name has none
 */
export function splitNameUnit(name: string): {
  readonly words: readonly string[]
  readonly unit?: TimeUnit
} {
  const words = name
    .replace(/([a-z])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-zµ]+/)
    .filter((word) => word !== '')
  const unit = unitWords[words.at(-1) ?? '']
  return unit === undefined ? { words } : { words: words.slice(0, -1), unit }
}

/**
 * Parses the header of a column of times: 'at_ms', 'Timestamp (s)', 'arrivalSeconds', 'timestamp'.
 * @returns undefined for other columns; `unit` absent if the name has none
 */
export function parseTimeHeader(cell: string): { readonly unit?: TimeUnit } | undefined {
  const { words, unit } = splitNameUnit(cell)
  if (!words.every((word) => timeWords.has(word))) return undefined
  if (unit === undefined) return words.length > 0 ? {} : undefined
  return { unit }
}

const millisecondsPerSuffix: Readonly<Record<string, number>> = {
  ...millisecondsPer,
  µs: 1e-3,
  μs: 1e-3,
  m: 60_000,
  h: 3_600_000,
}

/**
 * Milliseconds of a duration that states its unit, as programs write it: '126ms', '1m2.5s',
 * '126.4 µs', 'PT0.126S', '00:00:00.126'.
 * @returns undefined for anything else, a bare number too
 */
export function parseStatedDurationMs(text: string): number | undefined {
  const clock = /^(\d+):(\d\d):(\d\d(?:\.\d+)?)$/.exec(text)
  if (clock)
    return ((Number(clock[1]) * 60 + Number(clock[2])) * 60 + Number(clock[3])) * millisecondsPer.s
  const parts = /^PT(?=.)(?:\d+H)?(?:\d+M)?(?:\d+(?:\.\d+)?S)?$/.test(text)
    ? text.slice(2).toLowerCase()
    : text
  if (!/^(?:\d+(?:\.\d+)? ?(?:h|ms|m|s|us|µs|μs|ns))+$/.test(parts)) return undefined
  return [...parts.matchAll(/(\d+(?:\.\d+)?) ?([a-zµμ]+)/g)].reduce(
    (sum, [, value, unit = '']) => sum + Number(value) * millisecondsPerSuffix[unit]!,
    0,
  )
}

/** 'FILE' or 'FILE:UNIT', as in trace:requests.csv:s. */
export function parseTraceName(text: string): { readonly file: string; readonly unit?: TimeUnit } {
  const [, file, unit] = /^(.+):(s|ms|us|ns)$/.exec(text.trim()) ?? []
  return file === undefined ? { file: text.trim() } : { file, unit: unit as TimeUnit }
}
