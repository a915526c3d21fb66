/** The generated parts of docs/reference/results.md. */
import { statuses } from '../../reports/recommendation/status.ts'
import { bindings } from '../../reports/recommendation/types.ts'
import { createRecommendationJsonSchema } from '../../reports/report/recommendation-json.ts'
import { tokenColumns, trialColumns } from '../../reports/report/trials-csv.ts'
import { type JsonSchema, listPropertyRows } from './json-schema.ts'
import { code, escapeText, sentence, table } from './markdown.ts'
import { profileRegions } from './profile.ts'

export const resultsRegions = (): Record<string, string> => ({
  fields: fields(),
  statuses: wordTable('status', statuses),
  bindings: wordTable('what', bindings),
  columns: columnTable(trialColumns),
  'columns of streamed answers': columnTable(tokenColumns),
  ...profileRegions(),
})

const wordTable = (head: string, words: Readonly<Record<string, string>>): string =>
  table(
    [head, 'meaning'],
    Object.entries(words).map(([name, meaning]) => [code(name), sentence(meaning)]),
  )

const columnTable = (columns: typeof trialColumns): string =>
  table(
    ['column', 'meaning'],
    columns.map(({ name, what }) => [code(name), escapeText(what)]),
  )

/** Titles of the definitions that have a section, in the order of the page. */
const titles: Readonly<Record<string, string>> = {
  Configuration: 'Configuration',
  Alternative: 'Alternative',
  Tokens: 'Tokens',
  Percentiles: 'Percentiles',
  Confirmation: 'Confirmation',
  Variation: 'Variation',
  MeasuredWith: 'Measured with',
  Stage: 'Stage',
  Slo: 'SLO',
}

/**
 * A section for the document and for each definition of its schema.
 * @throws Error for a definition without a title here
 */
function fields(): string {
  const schema = createRecommendationJsonSchema() as JsonSchema
  const definitions = schema.$defs ?? {}
  const findTitle = (definition: string): string => {
    const title = titles[definition]
    if (title === undefined) throw new Error(`no title for the definition ${definition}`)
    return title
  }
  const renderTable = (of: JsonSchema) =>
    table(['field', 'type', 'meaning'], listPropertyRows(of, findTitle))
  const sections = Object.entries(titles).map(([definition, title]) => {
    const of = definitions[definition]
    if (of === undefined) throw new Error(`the schema has no definition ${definition}`)
    const body =
      definition === 'Alternative'
        ? `Every field of a [configuration](#configuration), and:\n\n${renderTable(without(of, definitions.Configuration))}`
        : renderTable(of)
    return `### ${title}\n\n${body}`
  })
  return [renderTable(schema), ...sections].join('\n\n')
}

/** An object's properties that another one lacks. */
const without = (schema: JsonSchema, other: JsonSchema = {}): JsonSchema => ({
  ...schema,
  properties: Object.fromEntries(
    Object.entries(schema.properties ?? {}).filter(
      ([name]) => !Object.hasOwn(other.properties ?? {}, name),
    ),
  ),
})
