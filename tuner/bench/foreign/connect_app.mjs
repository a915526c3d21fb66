// The Connect protocol: JSON to /PACKAGE.SERVICE/METHOD. Its messages are described here, as a
// compiler would from a .proto file.
import { createServer } from 'node:http'
import { create, createFileRegistry } from '@bufbuild/protobuf'
import { FieldDescriptorProto_Label, FieldDescriptorProto_Type, FileDescriptorProtoSchema } from '@bufbuild/protobuf/wkt'
import { Code, ConnectError } from '@connectrpc/connect'
import { connectNodeAdapter } from '@connectrpc/connect-node'

const { STRING, FLOAT } = FieldDescriptorProto_Type
const field = (name, number, type) => ({ name, number, type, label: FieldDescriptorProto_Label.OPTIONAL, jsonName: name })
const file = create(FileDescriptorProtoSchema, {
  name: 'sentiment.proto',
  package: 'sentiment.v1',
  syntax: 'proto3',
  messageType: [
    { name: 'Ask', field: [field('text', 1, STRING)] },
    { name: 'Answer', field: [field('label', 1, STRING), field('score', 2, FLOAT)] },
  ],
  service: [{ name: 'Sentiment', method: [{ name: 'Classify', inputType: '.sentiment.v1.Ask', outputType: '.sentiment.v1.Answer' }] }],
})
const service = createFileRegistry(file, () => undefined).getService('sentiment.v1.Sentiment')
const classify = ({ text }) => {
  if (text === '') throw new ConnectError('text is required', Code.InvalidArgument)
  return { label: text.length % 2 ? 'positive' : 'negative', score: 0.5 }
}
const handler = connectNodeAdapter({ routes: (router) => router.service(service, { classify }) })
createServer(handler).listen(Number(process.argv[process.argv.indexOf('--port') + 1]), '127.0.0.1')
