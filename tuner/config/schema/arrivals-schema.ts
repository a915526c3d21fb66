/** Schema of `load.arrivals`: the arrival process of an open loop. */
import { z } from 'zod'
import { parseTraceName, type TimeUnit, timeUnits } from '../values/time-unit.ts'
import { parseDurationMs, UnitError } from '../values/units.ts'
import { absolutePath, createQuantity, duration, number, path } from './schema-parts.ts'

export const arrivals = z.union(
  [
    createQuantity(parseArrivals, 'an arrival pattern such as poisson', ({ kind }) =>
      kind === 'poisson' || kind === 'constant' ? kind : undefined,
    ),
    z.discriminatedUnion(
      'kind',
      [
        z.strictObject({ kind: z.literal('poisson') }),
        z.strictObject({ kind: z.literal('constant') }),
        z.strictObject({
          kind: z.literal('gamma'),
          cv: number.positive({ error: 'must be more than 0' }),
        }),
        z.strictObject({ kind: z.literal('on-off'), on: duration, off: duration }),
        z.strictObject({
          kind: z.literal('trace'),
          file: path('a path'),
          unit: z.enum(timeUnits, { error: `expected ${timeUnits.join(', ')}` }).optional(),
        }),
      ],
      { error: 'expected kind: poisson, constant, gamma, on-off or trace' },
    ),
  ],
  { error: 'expected poisson, constant, gamma:CV, on-off:ON,OFF, trace:FILE or trace:FILE:UNIT' },
)

/**
 * 'poisson', 'constant', 'gamma:2' (coefficient of variation), 'on-off:1s,3s',
 * 'trace:arrivals.csv', 'trace:arrivals.csv:s'.
 */
function parseArrivals(
  input: string | number,
):
  | { kind: 'poisson' | 'constant' }
  | { kind: 'gamma'; cv: number }
  | { kind: 'on-off'; on: number; off: number }
  | { kind: 'trace'; file: string; unit?: TimeUnit } {
  const [, kind = '', rest = ''] = /^\s*([a-z-]+)\s*(?::\s*(.*))?$/i.exec(String(input)) ?? []
  const hint =
    'write poisson, constant, gamma:2 (coefficient of variation), on-off:1s,3s or trace:FILE'
  if ((kind === 'poisson' || kind === 'constant') && rest === '') return { kind }
  if (kind === 'gamma' && Number(rest) > 0 && Number.isFinite(Number(rest)))
    return { kind, cv: Number(rest) }
  const [on, off, ...more] = rest.split(',')
  if (kind === 'on-off' && on && off && more.length === 0)
    return { kind, on: parseDurationMs(on), off: parseDurationMs(off) }
  if (kind === 'trace' && rest !== '') {
    const { file, unit } = parseTraceName(rest)
    return { kind, file: absolutePath(file), unit }
  }
  throw new UnitError(`'${input}' is not an arrival pattern`, hint)
}
