/** Lines of text that servers and gateways write for a request, each as a record of fields. */

/** Keys as the server names them; of a text line, as docs/how-to/watch-production.md lists them. */
export type LogRecord = Readonly<Record<string, unknown>>

/** Shapes of lines, in the order in which they are tried; `logfmt` fits most and comes last. */
export const textShapes = [
  'combined',
  'envoy',
  'haproxy',
  'aws-elb',
  'torchserve',
  'bentoml',
  'ray-serve',
  'gin',
  'uvicorn',
  'logfmt',
] as const
export type TextShape = (typeof textShapes)[number]

type Parser = (text: string) => LogRecord | undefined

/** Named groups of a pattern are the fields. */
const createPatternParser =
  (pattern: RegExp): Parser =>
  (text) => {
    const groups = pattern.exec(text)?.groups
    return groups && { ...groups }
  }

const parsers: Readonly<Record<TextShape, Parser>> = {
  combined: parseCombined,
  // Istio has two to four words more than Envoy between the flags and the bytes.
  envoy: createPatternParser(
    /^\[(?<start_time>\d{4}-[^\]\s]+)\] "(?<request>[^"]*)" (?<response_code>\d+) (?<response_flags>\S+) (?:(?:"[^"]*"|[^\d"\s]\S*) ){0,4}(?<bytes_received>\d+) (?<bytes_sent>\d+) (?<duration>\d+) (?:\d+|-|"[^"]*") "[^"]*" "[^"]*"/,
  ),
  haproxy: createPatternParser(
    /^\S+:\d+ \[(?<accept_date>\d\d\/[A-Z][a-z]{2}\/\d{4}:\d\d:\d\d:\d\d\.\d{3})\] \S+ \S+ -?\d+\/-?\d+\/-?\d+\/(?<Tr>-?\d+)\/(?<Ta>\d+) (?<status_code>-?\d+) \d+ \S+ \S+ (?<termination_state>\S{4}) [\d/+]+ [\d/]+ (?:\{[^}]*\} ){0,2}"(?<request>[^"]*)"/,
  ),
  'aws-elb': parseElb,
  torchserve: createPatternParser(
    /^(?<time>\d{4}-\d\d-\d\dT[\d:,.]+) \[INFO ?\] .{0,200}?ACCESS_LOG - \/\S+ "(?<request>[^"]*)" (?<status>\d{3}) (?<duration>\d+)$/,
  ),
  bentoml: createPatternParser(
    /^(?<time>\d{4}-\d\d-\d\dT[\d:.]+[+-]\d{4}) \[\w+\] \[[^\]]*\] \S+ \(scheme=\w+,method=\w+,path=(?<path>[^,)]*)(?:,[^)]*)?\) \(status=(?<status>\d{3})(?:,[^)]*)?\) (?<duration>[\d.]+(?:ms|s|us|µs))\b/,
  ),
  'ray-serve': createPatternParser(
    /^INFO (?<time>\d{4}-\d\d-\d\d [\d:,]+) .{0,300}?-- (?:[A-Z]+ )?(?<path>\/\S*) (?<status>\d{3}) (?<duration>[\d.]+(?:ms|s))$/,
  ),
  gin: createPatternParser(
    /^\[GIN\] (?<time>\d{4}\/\d\d\/\d\d - [\d:]{8}) \| +(?<status>\d{3}) \| +(?<duration>[\d.a-zµ]+) \| +\S+ \| +[A-Z]+ +"(?<path>[^"]*)"/,
  ),
  uvicorn: createPatternParser(/^INFO: +\S+:\d+ - "(?<request>[^"]*)" (?<status>\d{3})\b/),
  logfmt: parseLogfmt,
}

/**
 * Parses the record of the first shape that the line has.
 * @param shapes that may be
 */
export function parseTextLine(
  text: string,
  shapes: readonly string[],
): { readonly shape: TextShape; readonly record: LogRecord } | undefined {
  for (const shape of textShapes) {
    const record = shapes.includes(shape) ? parsers[shape](text) : undefined
    if (record) return { shape, record }
  }
  return undefined
}

const combinedPattern =
  /^[^"]*?\[(\d\d\/[A-Z][a-z]{2}\/\d{4}:\d\d:\d\d:\d\d [+-]\d{4})\] "((?:[^"\\]|\\.)*)" (\d{3}) (\d+|-)(?: (.*))?$/
const agentPattern = /^"(?:[^"\\]|\\.)*" "(?:[^"\\]|\\.)*"(?: |$)/
const wordPattern = /([A-Za-z_][\w.-]*)=(?:"((?:[^"\\]|\\.)*)"|(\S*))|"((?:[^"\\]|\\.)*)"|(\S+)/g

/**
 * Parses the format of nginx, Apache and servers that write alike. Text behind the agent (without
 * an agent: behind the bytes) is in the fields 1, 2, ..., `last`, and under its name if it is
 * NAME=value.
 */
function parseCombined(text: string): LogRecord | undefined {
  const match = combinedPattern.exec(text)
  if (!match) return undefined
  const [, time, request, status, bytes, rest = ''] = match
  const behind = rest.replace(agentPattern, '').trim()
  const namedValues: Record<string, string> = {}
  const values: string[] = []
  for (const [, name, quoted, bare, quotedWord, bareWord] of behind.matchAll(wordPattern)) {
    if (name !== undefined) namedValues[name] = quoted ?? bare ?? ''
    else if (/^(?:ms|us|µs|s)$/.test(bareWord ?? '') && /^[\d.]+$/.test(values.at(-1) ?? ''))
      values.push(`${values.pop()}${bareWord}`)
    else values.push(quotedWord ?? bareWord ?? '')
  }
  return {
    ...namedValues,
    ...Object.fromEntries(values.map((value, i) => [String(i + 1), value])),
    ...(values.length > 0 && { last: values.at(-1) }),
    ...{ time, request, status, bytes, behind, values },
  }
}

/** Application load balancers, and classic ones, which have no type before the time. */
const elbPattern =
  /^(?:(?:https?|h2|grpcs?|wss?) )?(\d{4}-\d\d-\d\dT[\d:.]+Z) \S+ \S+:\d+ \S+ (-1|\d+\.\d+) (-1|\d+\.\d+) (-1|\d+\.\d+) (\d{3}|-) (?:\d{3}|-) \d+ \d+ "([^"]*)"/

/** The three times of a request (to the target, in it, back) as their sum. */
function parseElb(text: string): LogRecord | undefined {
  const match = elbPattern.exec(text)
  if (!match) return undefined
  const [, time, ...rest] = match
  const timesS = rest.slice(0, 3).map(Number)
  const [status, request] = rest.slice(3)
  return {
    ...{ time, status, request },
    // -1 where the request got no answer of a target.
    ...(timesS.every((each) => each >= 0) && {
      duration: timesS.reduce((sum, each) => sum + each, 0),
    }),
  }
}

/** Minimum number of pairs of a logfmt line. */
const minPairs = 3
const pairPattern = /([A-Za-z_][\w.@/-]*)=(?:"((?:[^"\\]|\\.)*)"|(\S*))(?: +|$)/y

function parseLogfmt(text: string): LogRecord | undefined {
  const record: Record<string, string> = {}
  pairPattern.lastIndex = 0
  while (pairPattern.lastIndex < text.length) {
    const match = pairPattern.exec(text)
    if (!match) return undefined
    record[match[1]!] = match[2] ?? match[3]!
  }
  return Object.keys(record).length >= minPairs ? record : undefined
}
