/** Access logs: which format, and the request of each line. */
export { type LogFields, parseFieldFlags } from './fields.ts'
export { type LogShape, logShapes } from './log-record.ts'
export { type LogFormat, type LoggedRequest, parseRequest } from './logged-request.ts'
export { describeFormat, LogSample, parseKeptFormat } from './recognise-format.ts'
