/** Schema of a parameter: its values, and how they reach the server. */

import { z } from 'zod'
import { categoryNames } from '../../../search/categories.ts'
import { parseShorthand, type ValueDomain } from '../values/shorthand.ts'
import {
  boolean,
  choice,
  createCodec,
  createQuantity,
  number,
  optional,
  text,
} from './schema-parts.ts'

export const scalar = z.union([z.number(), z.string()], { error: 'expected a number or a text' })
const valueList = createCodec(
  z.array(scalar).min(1, { error: 'expected at least one value' }),
  (values): ValueDomain => ({ values }),
  ({ values }) => values && [...values],
)
const parameterKeys = z.strictObject({
  kind: optional(
    choice(['int', 'float', 'ordinal', 'categorical'], 'a kind'),
    'type of the parameter; default: derived from the values',
  ),
  values: optional(
    z.union([valueList, createQuantity(parseShorthand, "values such as 1..32 or '1, 2, 4'")], {
      error: 'expected values such as [1, 2, 4] or 1..32',
    }),
    'values as a list or in short form, e.g. [1, 2, 4] or 1..32',
  ),
  min: optional(scalar, 'minimum of a range'),
  max: optional(scalar, 'maximum of a range'),
  step: optional(
    number.positive({ error: 'must be more than 0' }),
    'step between values of a range; default: 1 for int',
  ),
  factor: optional(
    number.gt(1, { error: 'must be more than 1' }),
    'factor between values, e.g. 2 for powers of two',
  ),
  scale: optional(
    choice(['linear', 'log'], 'a scale'),
    'scale on which the search measures distances between values',
  ),
  category: optional(choice(categoryNames, 'a category'), 'how the value reaches the server'),
  when: optional(
    text('a condition'),
    "condition under which the parameter applies, e.g. gpu != 'T4'",
  ),
  monotone: optional(
    choice(['up', 'down'], 'a direction'),
    'known effect on the rate: a higher value never lowers it (up) or never raises it (down)',
  ),
  concurrency: optional(
    boolean,
    'whether the parameter sets how many requests are served concurrently (a batch size, a number of processes), so that rate and latency rise with it',
  ),
  features: optional(
    z.record(z.string(), z.array(z.number()), { error: 'expected value → list of numbers' }),
    'categorical: numeric features of each value, e.g. [ln bandwidth, ln FLOP/s]',
  ),
})

/** A parameter as written: `values` or a range, and its other properties. */
export interface ParameterEntry extends Omit<z.output<typeof parameterKeys>, 'values'> {
  readonly values?: readonly (number | string)[]
}
const parameterObject = createCodec(
  parameterKeys,
  ({ values, ...rest }): ParameterEntry => ({ ...rest, ...values }),
  ({ values, ...rest }) => ({ ...rest, ...(values && { values: { values } }) }),
)

export const parameter = z.union(
  [
    createQuantity<ParameterEntry>(parseShorthand, "values such as 1..32, '1, 2, 4' or 8"),
    createCodec(
      valueList,
      (values): ParameterEntry => values,
      ({ values, ...rest }) =>
        Object.values(rest).every((part) => part === undefined) ? { values } : undefined,
    ),
    parameterObject,
  ],
  {
    error:
      'expected values such as [1, 2, 4] or 1..32, or {kind, min, max, step, values, category, when}',
  },
)
