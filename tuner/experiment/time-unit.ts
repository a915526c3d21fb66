/** Units that times of a file may be in, and how a header or a user names them. */
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
 * What a header says of a column of times: 'at_ms', 'Timestamp (s)', 'arrivalSeconds', 'timestamp'.
 * @returns undefined for another column; `unit` undefined where it names none
 */
export function parseTimeHeader(cell: string): { readonly unit?: TimeUnit } | undefined {
  const words = cell
    .replace(/([a-z])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-zµ]+/)
    .filter((word) => word !== '')
  const unit = unitWords[words.at(-1) ?? '']
  const others = unit === undefined ? words : words.slice(0, -1)
  if (!others.every((word) => timeWords.has(word))) return undefined
  if (unit === undefined) return others.length > 0 ? {} : undefined
  return { unit }
}

/** 'FILE' or 'FILE:UNIT', as in trace:requests.csv:s. */
export function parseTraceName(text: string): { readonly file: string; readonly unit?: TimeUnit } {
  const [, file, unit] = /^(.+):(s|ms|us|ns)$/.exec(text.trim()) ?? []
  return file === undefined ? { file: text.trim() } : { file, unit: unit as TimeUnit }
}
