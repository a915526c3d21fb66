/** The file that says what a recorded table means: `tune replay --task`. */
import { z } from 'zod'
import { taskObjectives } from '../../search/replay-task.ts'
import type { Source } from '../../trials/table-text.ts'
import { parseYaml } from '../../trials/yaml.ts'

const column = z
  .string({ error: 'expected the name of a column' })
  .min(1, { error: 'expected the name of a column' })
const above0 = (what: string) =>
  z.number({ error: `expected ${what}` }).gt(0, { error: `expected ${what}` })
const counted = z.number().int().min(0).optional()

const parameter = z
  .strictObject({
    name: column.meta({ description: 'column of its values' }),
    kind: z
      .enum(['ordinal', 'categorical'], { error: 'expected ordinal or categorical' })
      .optional()
      .meta({
        description: 'numbers in order, or names; default: ordinal where every value is a number',
      }),
    values: z
      .array(z.union([z.number(), z.string()], { error: 'expected a number or a text' }))
      .min(1)
      .optional()
      .meta({ description: 'the values that a row may have; default: those of the table' }),
    features: z.record(z.string(), z.array(z.number())).optional().meta({
      description:
        'numbers that place the names of a categorical parameter, as many for each; default: the datasheet of known GPUs',
    }),
    concurrency: z.boolean().optional().meta({
      description:
        'whether it says how many requests are served at once; default: by its name (batchSize, workers, ...)',
    }),
  })
  .superRefine(({ kind, values }, context) => {
    if (new Set(values?.map(String)).size < (values?.length ?? 0))
      context.addIssue({ code: 'custom', path: ['values'], message: 'lists a value twice' })
    if (kind === 'ordinal' && values?.some((value) => typeof value !== 'number'))
      context.addIssue({
        code: 'custom',
        path: ['values'],
        message: 'values of an ordinal parameter are numbers',
      })
  })

const replayTaskSchema = z.strictObject({
  name: z.string().min(1).default('recorded table'),
  table: z.string().min(1).optional().meta({
    description: 'CSV file of the rows, relative to this file, where the command line names none',
  }),
  parameters: z
    .array(parameter, { error: 'expected a list of parameters, each at least {name: COLUMN}' })
    .min(1)
    .superRefine((parameters, context) => {
      for (const [i, { name }] of parameters.entries())
        if (parameters.findIndex((other) => other.name === name) < i)
          context.addIssue({
            code: 'custom',
            path: [i, 'name'],
            message: 'a parameter of that name stands above',
          })
    }),
  price: z
    .union([column, above0('a price per hour above 0')], {
      error: 'expected the column of the price per hour, or one price for all rows',
    })
    .meta({ description: 'column of the price per hour, $; or one price for all rows' }),
  objective: z
    .enum(Object.keys(taskObjectives) as [keyof typeof taskObjectives], {
      error: 'expected price or pricePerRequest',
    })
    .meta({
      description:
        'what is least at the best: the price per hour, or that price per request served',
    }),
  constraint: z
    .strictObject({
      metric: column.meta({
        description: 'column of what is limited: a latency, a share of violations',
      }),
      max: above0('a limit above 0').meta({
        description: 'a row keeps the limit when its metric is at most this',
      }),
    })
    .meta({ description: 'what every recommended row keeps' }),
  rate: column.optional().meta({
    description:
      'column of the served rate, requests per second, for pricePerRequest; default throughputRps',
  }),
  infeasibleColumn: column.nullish().meta({
    description:
      'column that is 1 where a configuration could not serve; nothing need be measured there',
  }),
  relativeNoise: z.number().min(0).max(2).optional().meta({
    description:
      'standard deviation of ln(reading) between runs of one configuration, 0.03 for 3 %: how far readings are trusted',
  }),
  source: z.string().optional().meta({ description: 'where the measurements come from' }),
  configurations: counted.meta({
    description: 'for checking: how many configurations the table has',
  }),
  feasible: counted.meta({ description: 'for checking: how many keep the limit' }),
  within5Percent: counted.meta({
    description: 'for checking: how many of those cost at most 5 % more than the cheapest',
  }),
  bestCost: z.number().optional().meta({
    description:
      'for checking: cost of the cheapest that keeps the limit, $ per hour or $ per request per second and hour',
  }),
})

/** The file as it is written, defaults filled in. */
export type GivenTask = z.output<typeof replayTaskSchema>

/** Throws YamlFileError, which names every problem with its line. */
export const parseReplayTask = ({ file, text }: Source): GivenTask =>
  parseYaml(text, file, replayTaskSchema)

/** docs/reference/replay-task.schema.json. */
export const replayTaskJsonSchema = (): object => z.toJSONSchema(replayTaskSchema, { io: 'input' })
