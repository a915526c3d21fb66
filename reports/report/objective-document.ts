/** An objective as a JSON document: its name, and what it asks for. */
import { z } from 'zod'
import {
  getRequiredInput,
  type Objective,
  objectiveKinds,
  requiredFields,
} from '../../search/objective.ts'

const fields = {
  demandRps: z.number().positive(),
  headroom: z.number().min(0).lt(1),
  maxPricePerHour: z.number().positive(),
  metric: z.string().meta({ description: "of the server's own metrics, labels and all" }),
} as const

const documents = objectiveKinds.map((kind) =>
  z.object({
    kind: z.literal(kind),
    ...Object.fromEntries(
      requiredFields[getRequiredInput(kind)].map((field) => [field, fields[field]]),
    ),
  }),
)

export const objectiveDocument = z.discriminatedUnion('kind', [
  documents[0]!,
  ...documents.slice(1),
]) as unknown as z.ZodType<Objective>
