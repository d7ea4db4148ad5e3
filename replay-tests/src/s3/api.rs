use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::TryStreamExt;
use s3s::dto::{
    AbortMultipartUploadInput, AbortMultipartUploadOutput, CommonPrefix, CompleteMultipartUploadInput,
    CompleteMultipartUploadOutput, CreateBucketInput, CreateBucketOutput, CreateMultipartUploadInput,
    CreateMultipartUploadOutput, DeleteObjectInput, DeleteObjectOutput, DeleteObjectsInput, DeleteObjectsOutput, DeletedObject,
    ETag, ETagCondition, GetObjectInput, GetObjectOutput, HeadBucketInput, HeadBucketOutput, HeadObjectInput, HeadObjectOutput,
    ListObjectsV2Input, ListObjectsV2Output, PutObjectInput, PutObjectOutput, StreamingBlob, UploadPartInput, UploadPartOutput,
};
use s3s::{Body, S3, S3Error, S3ErrorCode, S3Request, S3Response, S3Result, s3_error};

use super::objects::{Condition, Object, Objects, Query, Refusal};
use super::uploads::Uploads;

const PAGE: usize = 1_000;

pub(super) struct Api {
    pub(super) objects: Arc<Objects>,
    pub(super) uploads: Uploads,
}

#[async_trait::async_trait]
impl S3 for Api {
    async fn create_bucket(&self, request: S3Request<CreateBucketInput>) -> S3Result<S3Response<CreateBucketOutput>> {
        self.objects.create_bucket(&request.input.bucket);
        Ok(S3Response::new(CreateBucketOutput::default()))
    }

    async fn head_bucket(&self, request: S3Request<HeadBucketInput>) -> S3Result<S3Response<HeadBucketOutput>> {
        match self.objects.has_bucket(&request.input.bucket) {
            true => Ok(S3Response::new(HeadBucketOutput::default())),
            false => Err(Refusal::NoBucket.into()),
        }
    }

    async fn put_object(&self, request: S3Request<PutObjectInput>) -> S3Result<S3Response<PutObjectOutput>> {
        let input = request.input;
        let condition = condition(input.if_none_match, input.if_match)?;
        let body = collect(input.body).await?;
        let etag = self.objects.put(&input.bucket, &input.key, body, condition)?;
        let e_tag = Some(ETag::Strong(etag));
        Ok(S3Response::new(PutObjectOutput { e_tag, ..Default::default() }))
    }

    async fn get_object(&self, request: S3Request<GetObjectInput>) -> S3Result<S3Response<GetObjectOutput>> {
        let input = request.input;
        let object = self.objects.get(&input.bucket, &input.key)?;
        judge_read(&object, input.if_match.as_ref(), input.if_none_match.as_ref())?;
        let whole = object.body.len() as u64;
        let (body, content_range) = match input.range {
            None => (object.body, None),
            Some(range) => {
                let range = range.check(whole)?;
                let header = format!("bytes {}-{}/{whole}", range.start, range.end - 1);
                (object.body.slice(range.start as usize..range.end as usize), Some(header))
            }
        };
        Ok(S3Response::new(GetObjectOutput {
            accept_ranges: Some("bytes".into()),
            content_length: Some(body.len() as i64),
            content_range,
            body: Some(StreamingBlob::from(Body::from(body))),
            e_tag: Some(ETag::Strong(object.etag)),
            last_modified: Some(object.modified.into()),
            ..Default::default()
        }))
    }

    async fn head_object(&self, request: S3Request<HeadObjectInput>) -> S3Result<S3Response<HeadObjectOutput>> {
        let input = request.input;
        let object = self.objects.get(&input.bucket, &input.key)?;
        judge_read(&object, input.if_match.as_ref(), input.if_none_match.as_ref())?;
        Ok(S3Response::new(HeadObjectOutput {
            accept_ranges: Some("bytes".into()),
            content_length: Some(object.body.len() as i64),
            e_tag: Some(ETag::Strong(object.etag)),
            last_modified: Some(object.modified.into()),
            ..Default::default()
        }))
    }

    async fn delete_object(&self, request: S3Request<DeleteObjectInput>) -> S3Result<S3Response<DeleteObjectOutput>> {
        self.objects.delete(&request.input.bucket, &request.input.key)?;
        Ok(S3Response::new(DeleteObjectOutput::default()))
    }

    async fn delete_objects(&self, request: S3Request<DeleteObjectsInput>) -> S3Result<S3Response<DeleteObjectsOutput>> {
        let DeleteObjectsInput { bucket, delete, .. } = request.input;
        let mut deleted = Vec::with_capacity(delete.objects.len());
        for object in delete.objects {
            self.objects.delete(&bucket, &object.key)?;
            deleted.push(DeletedObject { key: Some(object.key), ..Default::default() });
        }
        let deleted = Some(deleted);
        Ok(S3Response::new(DeleteObjectsOutput { deleted, ..Default::default() }))
    }

    async fn list_objects_v2(&self, request: S3Request<ListObjectsV2Input>) -> S3Result<S3Response<ListObjectsV2Output>> {
        let input = request.input;
        let query = Query {
            prefix: input.prefix.clone().unwrap_or_default(),
            delimiter: input.delimiter.clone().filter(|delimiter| !delimiter.is_empty()),
            after: input.continuation_token.clone().or_else(|| input.start_after.clone()),
            limit: input.max_keys.map_or(PAGE, |max| PAGE.min(max.max(0) as usize)),
        };
        let page = self.objects.list(&input.bucket, &query)?;
        Ok(S3Response::new(ListObjectsV2Output {
            key_count: Some((page.objects.len() + page.common_prefixes.len()) as i32),
            is_truncated: Some(page.next.is_some()),
            next_continuation_token: page.next,
            contents: Some(page.objects.into_iter().map(listed).collect()),
            common_prefixes: Some(page.common_prefixes.into_iter().map(|prefix| CommonPrefix { prefix: Some(prefix) }).collect()),
            name: Some(input.bucket),
            prefix: Some(query.prefix),
            delimiter: query.delimiter,
            max_keys: Some(query.limit as i32),
            continuation_token: input.continuation_token,
            start_after: input.start_after,
            ..Default::default()
        }))
    }

    async fn create_multipart_upload(
        &self,
        request: S3Request<CreateMultipartUploadInput>,
    ) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
        Ok(S3Response::new(CreateMultipartUploadOutput {
            bucket: Some(request.input.bucket),
            key: Some(request.input.key),
            upload_id: Some(self.uploads.start()),
            ..Default::default()
        }))
    }

    async fn upload_part(&self, request: S3Request<UploadPartInput>) -> S3Result<S3Response<UploadPartOutput>> {
        let input = request.input;
        let body = collect(input.body).await?;
        let etag = self.uploads.add_part(&input.upload_id, input.part_number, body).ok_or_else(|| s3_error!(NoSuchUpload))?;
        let e_tag = Some(ETag::Strong(etag));
        Ok(S3Response::new(UploadPartOutput { e_tag, ..Default::default() }))
    }

    async fn complete_multipart_upload(
        &self,
        request: S3Request<CompleteMultipartUploadInput>,
    ) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
        let input = request.input;
        let condition = condition(input.if_none_match, input.if_match)?;
        let listed = input.multipart_upload.and_then(|upload| upload.parts).unwrap_or_default();
        let numbers: Vec<_> = listed.iter().filter_map(|part| part.part_number).collect();
        let body = self.uploads.join(&input.upload_id, &numbers).ok_or_else(|| s3_error!(InvalidPart))?;
        let etag = self.objects.put(&input.bucket, &input.key, body, condition)?;
        self.uploads.end(&input.upload_id);
        Ok(S3Response::new(CompleteMultipartUploadOutput {
            bucket: Some(input.bucket),
            key: Some(input.key),
            e_tag: Some(ETag::Strong(etag)),
            ..Default::default()
        }))
    }

    async fn abort_multipart_upload(
        &self,
        request: S3Request<AbortMultipartUploadInput>,
    ) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
        self.uploads.end(&request.input.upload_id);
        Ok(S3Response::new(AbortMultipartUploadOutput::default()))
    }
}

impl From<Refusal> for S3Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NoBucket => s3_error!(NoSuchBucket),
            Refusal::NoObject => s3_error!(NoSuchKey),
            Refusal::ConditionFailed => s3_error!(PreconditionFailed),
        }
    }
}

fn condition(none_match: Option<ETagCondition>, matches: Option<ETagCondition>) -> S3Result<Condition> {
    match (none_match, matches) {
        (None, None) => Ok(Condition::None),
        (Some(ETagCondition::Any), None) => Ok(Condition::Absent),
        (None, Some(ETagCondition::ETag(etag))) => Ok(Condition::Matches(etag.into_value())),
        _ => Err(s3_error!(NotImplemented, "only If-None-Match: * and If-Match: etag")),
    }
}

fn judge_read(object: &Object, matches: Option<&ETagCondition>, none_match: Option<&ETagCondition>) -> S3Result<()> {
    let holds = |condition: &ETagCondition| condition.as_etag().is_none_or(|etag| etag.value() == object.etag);
    if matches.is_some_and(|condition| !holds(condition)) {
        return Err(s3_error!(PreconditionFailed));
    }
    if none_match.is_some_and(holds) {
        return Err(s3_error!(NotModified));
    }
    Ok(())
}

fn listed((key, object): (String, Object)) -> s3s::dto::Object {
    s3s::dto::Object {
        key: Some(key),
        size: Some(object.body.len() as i64),
        e_tag: Some(ETag::Strong(object.etag)),
        last_modified: Some(object.modified.into()),
        ..Default::default()
    }
}

pub(super) async fn collect(body: Option<StreamingBlob>) -> S3Result<Bytes> {
    let Some(mut body) = body else {
        return Ok(Bytes::new());
    };
    let mut whole = BytesMut::new();
    while let Some(chunk) = body.try_next().await.map_err(broken_off)? {
        whole.extend_from_slice(&chunk);
    }
    Ok(whole.freeze())
}

fn broken_off(source: s3s::StdError) -> S3Error {
    S3Error::with_source(S3ErrorCode::IncompleteBody, source)
}
