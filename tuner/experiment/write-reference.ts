/**
 * `npm run docs`: writes the reference of the experiment file, the JSON Schemas and the table of
 * protocols into docs/.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { protocolReference } from '../../profiler/protocols/protocol-table.ts'
import { replayTaskJsonSchema } from '../../reports/imports/replay-task-schema.ts'
import { recommendationJsonSchema } from '../../reports/report/recommendation-json.ts'
import { ownServersReference } from '../../trials/launchers/own-servers.ts'
import { experimentReference } from './reference.ts'
import { experimentJsonSchema } from './schema/experiment-schema.ts'

const docs = new URL('../../docs/', import.meta.url)
const page = new URL('experiment-file.md', docs)
const text = readFileSync(page, 'utf8')
const filled = text.replace(
  /(<!-- reference:.*?-->\n)[\s\S]*(<!-- end of reference -->)/,
  (_, start, end) => `${start}${experimentReference()}\n${end}`,
)
writeFileSync(page, filled)
const protocols = new URL('protocols.md', docs)
writeFileSync(
  protocols,
  readFileSync(protocols, 'utf8').replace(
    /(<!-- protocols:.*?-->\n)[\s\S]*(<!-- end of protocols -->)/,
    (_, start, end) => `${start}\n${protocolReference()}\n\n${end}`,
  ),
)
const servers = new URL('servers.md', docs)
writeFileSync(
  servers,
  readFileSync(servers, 'utf8').replace(
    /(<!-- own servers:.*?-->\n)[\s\S]*(<!-- end of own servers -->)/,
    (_, start, end) => `${start}\n${ownServersReference()}\n\n${end}`,
  ),
)
writeFileSync(
  new URL('experiment.schema.json', docs),
  `${JSON.stringify(experimentJsonSchema(), null, 2)}\n`,
)
writeFileSync(
  new URL('replay-task.schema.json', docs),
  `${JSON.stringify(replayTaskJsonSchema(), null, 2)}\n`,
)
writeFileSync(
  new URL('recommendation.schema.json', docs),
  `${JSON.stringify(recommendationJsonSchema(), null, 2)}\n`,
)
