require 'json'
require 'zlib'
require 'sinatra/base'

class Sentiment < Sinatra::Base
  post '/predict' do
    content_type :json
    text = JSON.parse(request.body.read)['text'] rescue nil
    halt 400, { error: 'send {"text": "..."}' }.to_json unless text.is_a?(String)
    { label: Zlib.crc32(text).odd? ? 'positive' : 'negative' }.to_json
  end
end

run Sentiment
