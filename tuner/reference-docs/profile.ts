/** Fields of `tune profile --json`. A field without a sentence does not compile. */
import type { PercentileRow, Profile, SteadyWindow } from '../../profiler/profile.ts'
import type { HistogramBin } from '../../profiler/statistics/histogram.ts'
import { code, table } from './markdown.ts'

type Sentences<T> = { readonly [Name in keyof Required<T>]: string }

const profile: Sentences<Profile> & { readonly schemaVersion: string } = {
  schemaVersion: '1. Fields may be added within a version.',
  url: 'The server.',
  model: 'Name of the model.',
  protocol: 'Protocol of the requests.',
  slo: 'The SLO, in the form of [`recommendation.json`](#slo).',
  verdict:
    '`met`: a capacity was found, or a given load met the SLO. `violated`: no load met it. `failed`: there is no verdict, because the server or the load generator failed.',
  summary: 'The verdict in one sentence.',
  measurement:
    'The search for the capacity, a [measurement](events.md#measurement); absent with `--rate` and `--concurrency`.',
  bound:
    '`lower`: the capacity is a lower bound, because the load generator was the limit or no load violated the SLO.',
  below:
    '[Load points](events.md#load-point) below the capacity, which complete the load curve of the measurement.',
  steady:
    'A [steady window](#steady-window): open-loop load at `--rate`, or at the lower end of the interval of the capacity. Absent for a capacity of 0 and for several loads.',
  sweep:
    'With several rates, or `--concurrency`: their [load points](events.md#load-point), in order.',
  caveats: 'What a reader of the figures must know, a sentence each.',
}

const steady: Sentences<SteadyWindow> = {
  point: 'Its [load point](events.md#load-point).',
  percentiles: 'A row for each percentile of the table that `tune profile` prints.',
  histogram: 'Latencies in bins of equal ratio, fastest first; failed requests are left out.',
  hdrHistogram:
    'The same latencies as an [HDR histogram](https://hdrhistogram.github.io/HdrHistogram/), for other tools: format V2, compressed, base64, in microseconds.',
  nEff: 'Effective sample size: the number of independent requests that tell as much.',
  proven: 'true: this window alone proves the SLO with 95 % confidence.',
}

const percentile: Sentences<PercentileRow> = {
  percentile: 'The percentile, 0-1: 0.99 for p99.',
  ms: 'Its latency, ms.',
  ci95Ms: 'Distribution-free 95 % interval of that latency, ms.',
}

const bin: Sentences<HistogramBin> = {
  fromMs: 'Lower edge, ms.',
  toMs: 'Upper edge, ms.',
  count: 'Number of requests.',
}

const rows = (sentences: Readonly<Record<string, string>>, path = ''): string[][] =>
  Object.entries(sentences).map(([name, meaning]) => [code(`${path}${name}`), meaning])

const fieldTable = (cells: readonly (readonly string[])[]): string =>
  table(['field', 'meaning'], cells)

export const profileRegions = (): Record<string, string> => ({
  'fields of a profile': fieldTable(rows(profile)),
  'fields of a steady window': fieldTable(
    rows(steady).flatMap((row) => [
      row,
      ...(row[0] === code('percentiles') ? rows(percentile, 'percentiles[].') : []),
      ...(row[0] === code('histogram') ? rows(bin, 'histogram[].') : []),
    ]),
  ),
})
