/** Schema of an objective as JSON: its name and its inputs. */
import { z } from 'zod'
import {
  getRequiredInput,
  type Objective,
  objectiveKinds,
  requiredFields,
} from '../../search/objective.ts'

const fields = {
  demandRps: z.number().positive().describe('Demand, requests per second.'),
  headroom: z.number().min(0).lt(1).describe('Share of the capacity that stays free, 0-1.'),
  maxPricePerHour: z.number().positive().describe('Maximum price of one replica, $ per hour.'),
  metric: z.string().describe("One of the server's own metrics, labels included."),
} as const

const documents = objectiveKinds.map((kind) =>
  z.object({
    kind: z.literal(kind).describe('Name of the objective.'),
    ...Object.fromEntries(
      requiredFields[getRequiredInput(kind)].map((field) => [field, fields[field]]),
    ),
  }),
)

export const objectiveDocument = z.discriminatedUnion('kind', [
  documents[0]!,
  ...documents.slice(1),
]) as unknown as z.ZodType<Objective>
