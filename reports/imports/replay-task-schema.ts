/** Schema of the file that describes a recorded table: `tune replay --task`. */
import { z } from 'zod'
import { taskObjectives } from '../../search/replay/task.ts'
import type { Source } from '../../trials/table-text.ts'
import { parseYaml } from '../../trials/yaml.ts'

const columnName = z
  .string({ error: 'expected the name of a column' })
  .min(1, { error: 'expected the name of a column' })
const positiveNumber = (what: string) =>
  z.number({ error: `expected ${what}` }).gt(0, { error: `expected ${what}` })
const countSchema = z.number().int().min(0).optional()

const parameterSchema = z
  .strictObject({
    name: columnName.meta({ description: 'column of its values' }),
    kind: z
      .enum(['ordinal', 'categorical'], { error: 'expected ordinal or categorical' })
      .optional()
      .meta({
        description:
          'ordinal: ordered numbers; categorical: names; default: ordinal if every value is a number',
      }),
    values: z
      .array(z.union([z.number(), z.string()], { error: 'expected a number or a text' }))
      .min(1)
      .optional()
      .meta({ description: 'the possible values; default: those of the table' }),
    features: z.record(z.string(), z.array(z.number())).optional().meta({
      description:
        'features of each value of a categorical parameter, the same number of features for each; default: datasheet figures for known GPUs',
    }),
    concurrency: z.boolean().optional().meta({
      description:
        'whether the parameter sets how many requests are served concurrently; default: decided by its name (batchSize, workers, ...)',
    }),
  })
  .superRefine(({ kind, values }, context) => {
    if (new Set(values?.map(String)).size < (values?.length ?? 0))
      context.addIssue({ code: 'custom', path: ['values'], message: 'lists a value twice' })
    if (kind === 'ordinal' && values?.some((value) => typeof value !== 'number'))
      context.addIssue({
        code: 'custom',
        path: ['values'],
        message: 'values of an ordinal parameter must be numbers',
      })
  })

const replayTaskSchema = z.strictObject({
  name: z.string().min(1).default('recorded table'),
  table: z.string().min(1).optional().meta({
    description: 'CSV file of the rows, relative to this file; the command line overrides it',
  }),
  parameters: z
    .array(parameterSchema, {
      error: 'expected a list of parameters, each at least {name: COLUMN}',
    })
    .min(1)
    .superRefine((parameters, context) => {
      for (const [i, { name }] of parameters.entries())
        if (parameters.findIndex((other) => other.name === name) < i)
          context.addIssue({
            code: 'custom',
            path: [i, 'name'],
            message: 'a parameter of that name already exists above',
          })
    }),
  price: z
    .union([columnName, positiveNumber('a price per hour above 0')], {
      error: 'expected the column of the price per hour, or one price for all rows',
    })
    .meta({ description: 'column of the price per hour, $; or one price for all rows' }),
  objective: z
    .enum(Object.keys(taskObjectives) as [keyof typeof taskObjectives], {
      error: 'expected price or pricePerRequest',
    })
    .meta({
      description: 'what to minimise: the price per hour, or that price per served request',
    }),
  constraint: z
    .strictObject({
      metric: columnName.meta({
        description: 'column of the limited metric, such as a latency or a share of violations',
      }),
      max: positiveNumber('a limit above 0').meta({
        description: 'a row meets the limit if its metric is at most this value',
      }),
    })
    .meta({ description: 'limit that every recommended row must meet' }),
  rate: columnName.optional().meta({
    description:
      'column of the served rate, requests per second, for pricePerRequest; default throughputRps',
  }),
  infeasibleColumn: columnName.nullish().meta({
    description:
      'column that is 1 for configurations that could not serve; their measurements may be empty',
  }),
  relativeNoise: z.number().min(0).max(2).optional().meta({
    description:
      'standard deviation of ln(measurement) between runs of one configuration, such as 0.03 for 3 %',
  }),
  source: z.string().optional().meta({ description: 'where the measurements come from' }),
  configurations: countSchema.meta({
    description: 'for checking: number of configurations in the table',
  }),
  feasible: countSchema.meta({
    description: 'for checking: number of configurations that meet the limit',
  }),
  within5Percent: countSchema.meta({
    description: 'for checking: number of those that cost at most 5 % more than the cheapest',
  }),
  bestCost: z.number().optional().meta({
    description:
      'for checking: cost of the cheapest configuration that meets the limit, $ per hour or $ per hour and request per second',
  }),
})

/** The parsed file with its defaults. */
export type ReplayTaskFile = z.output<typeof replayTaskSchema>

/** @throws YamlFileError, which names every problem with its line */
export const parseReplayTask = ({ file, text }: Source): ReplayTaskFile =>
  parseYaml(text, file, replayTaskSchema)

/** docs/reference/replay-task.schema.json. */
export const replayTaskJsonSchema = (): object => z.toJSONSchema(replayTaskSchema, { io: 'input' })
